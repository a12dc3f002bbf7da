//! Messages and pairing codes out of damaged bytes: every golden message mutated, cut at every byte, and any bytes at all.

use crate::{
    examples::{of_device, of_host},
    mutate::{Dice, rounds},
};
use pilothouse_domain::HostId;
use pilothouse_wire::{
    duplex::{Frame, MAX_FRAME},
    identity::SpkiHash,
    message::{DecodeError, DeviceMessage, HostMessage, Message, decode, encode},
    offer::{OFFER_VERSION, PairingOffer, PairingSecret},
};
use serde_json::Value;
use std::fmt::Debug;

/// Reads it; what reads is written and read again as the same, and what does not is told in few words.
fn read<M: Message + PartialEq + Debug>(text: &str) -> Result<M, DecodeError> {
    let read = decode::<M>(&Frame::Text(text.to_owned()));
    match &read {
        Ok(message) => {
            if let Ok(frame) = encode(message) {
                assert_eq!(decode::<M>(&frame).as_ref(), Ok(message), "{text}");
            }
        }
        Err(problem) => {
            let words = problem.to_string();
            assert!(!words.is_empty() && words.len() < 2000, "{words}");
        }
    }
    read
}

fn fuzz<M: Message + PartialEq + Debug>(examples: Vec<(&'static str, M)>, times: u64) {
    let values: Vec<Value> = examples
        .iter()
        .map(|(_, message)| serde_json::to_value(message).unwrap())
        .collect();
    let texts: Vec<String> = values.iter().map(Value::to_string).collect();
    for text in &texts {
        assert!(read::<M>(text).is_ok(), "{text}");
        for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            assert!(read::<M>(&text[..cut]).is_err(), "half a message was taken");
        }
    }
    let mut taken = 0;
    rounds(times, |dice: &mut Dice| {
        let value = dice.one(&values).clone();
        let changed = dice.changed(&value, &values).to_string();
        taken += u64::from(read::<M>(&changed).is_ok());
        let text = dice.one(&texts).clone();
        let _ = read::<M>(&String::from_utf8_lossy(&dice.damaged(text.as_bytes())));
        let _ = read::<M>(&String::from_utf8_lossy(&dice.bytes(300)));
        let _ = decode::<M>(&Frame::Binary(dice.bytes(300)));
    });
    assert!(taken > times / 50, "only {taken} mutations were taken");
}

#[test]
fn what_a_device_may_say_is_read_or_refused_whatever_comes() {
    fuzz(of_device(), 3000);
}

#[test]
fn what_a_host_may_say_is_read_or_refused_whatever_comes() {
    fuzz(of_host(), 3000);
}

/// A command that cannot be read is answered under its id, never passed over.
#[test]
fn a_damaged_command_keeps_its_id_as_long_as_that_reads() {
    let (_, command) = of_device()
        .into_iter()
        .find(|(_, message)| matches!(message, DeviceMessage::Command { .. }))
        .unwrap();
    let whole = serde_json::to_value(&command).unwrap();
    let id = whole["command"]["id"].clone();
    let mut answered = 0;
    rounds(3000, |dice: &mut Dice| {
        let mut damaged = whole.clone();
        let body = damaged["command"]["body"].clone();
        let mut changed = dice.changed(&body, &[]);
        if !changed.is_object() {
            return;
        }
        changed["command"] = body["command"].clone();
        damaged["command"]["body"] = changed;
        match read::<DeviceMessage>(&damaged.to_string()) {
            Err(DecodeError::Command { id: told, .. }) => {
                assert_eq!(serde_json::to_value(told).unwrap(), id);
                answered += 1;
            }
            Ok(_) => {}
            Err(other) => panic!("{other:?} for {damaged}"),
        }
    });
    assert!(answered > 100, "only {answered} commands were answered");
}

#[test]
fn a_frame_over_the_limit_is_refused_without_being_parsed() {
    let text = format!("{{\"type\":\"{}\"}}", "x".repeat(MAX_FRAME));
    assert!(matches!(
        read::<HostMessage>(&text),
        Err(DecodeError::NotAMessage(_))
    ));
}

#[test]
fn a_pairing_code_that_reads_is_one_that_was_written_and_a_damaged_one_is_told() {
    let offer = |dice: &mut Dice| PairingOffer {
        version: OFFER_VERSION,
        host_id: HostId::from_bytes([dice.below(256) as u8; 16]),
        host_name: dice.one(&["studio", "büro", "a b", "x"]).to_string(),
        addresses: (0..1 + dice.below(4))
            .map(|n| format!("10.0.{n}.{}:7433", dice.below(256)))
            .collect(),
        spki_sha256: SpkiHash::from_bytes([dice.below(256) as u8; 32]),
        secret: PairingSecret::from_bytes([dice.below(256) as u8; 16]),
        expires_at_ms: dice.below(usize::MAX) as u64 >> 12,
    };
    rounds(3000, |dice: &mut Dice| {
        let offer = offer(dice);
        let text = offer.to_text().unwrap();
        assert_eq!(PairingOffer::parse(&text).unwrap(), offer);
        let damaged = String::from_utf8_lossy(&dice.damaged(text.as_bytes())).into_owned();
        match PairingOffer::parse(&damaged) {
            Ok(read) => {
                // Blanks and line ends may come and go; everything else is covered by the check sum.
                let again = PairingOffer::parse(&read.to_text().unwrap()).unwrap();
                assert_eq!(again, read);
                assert_eq!(
                    read, offer,
                    "a damaged code is taken for another\n{text}\n{damaged}"
                );
            }
            Err(problem) => assert!(problem.to_string().len() < 500, "{problem}"),
        }
        let _ = PairingOffer::parse(&String::from_utf8_lossy(&dice.bytes(120)));
    });
}
