//! The pairing offer's text form.

use pilothouse_domain::HostId;
use pilothouse_wire::{
    identity::SpkiHash,
    offer::{
        OFFER_PREFIX, OFFER_VERSION, OfferParseError, OfferWriteError, PairingOffer, PairingSecret,
    },
};
use proptest::prelude::*;

fn offer() -> PairingOffer {
    PairingOffer {
        version: OFFER_VERSION,
        host_id: HostId::from_bytes([1; 16]),
        host_name: "studio".into(),
        addresses: vec![
            "192.168.1.5:7433".into(),
            "[fd00::5]:7433".into(),
            "studio.local:7433".into(),
        ],
        spki_sha256: SpkiHash::from_bytes([2; 32]),
        secret: PairingSecret::from_bytes([3; 16]),
        expires_at_ms: 1_796_000_000_000,
    }
}

#[test]
fn an_offer_survives_copying_through_terminals_and_stays_short() {
    let offer = offer();
    let text = offer.to_text().unwrap();
    assert!(text.len() < 220, "{} characters", text.len());
    assert_eq!(PairingOffer::parse(&text).unwrap(), offer);
    let wrapped: String = text
        .as_bytes()
        .chunks(40)
        .map(|c| format!("  {}\r\n", std::str::from_utf8(c).unwrap()))
        .collect();
    assert_eq!(PairingOffer::parse(&wrapped).unwrap(), offer);
}

#[test]
fn each_kind_of_damage_is_named() {
    let text = offer().to_text().unwrap();
    let parse = |text: &str| PairingOffer::parse(text).unwrap_err();
    assert_eq!(parse("https://example.org"), OfferParseError::NotAnOffer);
    assert_eq!(parse(""), OfferParseError::NotAnOffer);
    assert_eq!(parse(OFFER_PREFIX), OfferParseError::Incomplete);
    let mut odd = text.clone();
    odd.replace_range(30..31, "%");
    assert_eq!(
        parse(&odd),
        OfferParseError::Character {
            character: '%',
            position: 31
        }
    );
    let mut typo = text.clone();
    let other = if &text[60..61] == "A" { "B" } else { "A" };
    typo.replace_range(60..61, other);
    assert_eq!(parse(&typo), OfferParseError::Checksum);
    for end in OFFER_PREFIX.len()..text.len() {
        let error = parse(&text[..end]);
        assert!(
            matches!(
                error,
                OfferParseError::Incomplete | OfferParseError::Checksum
            ),
            "{end}: {error}"
        );
    }
}

#[test]
fn an_offer_of_a_newer_host_asks_for_an_update() {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let body = [9u8, 1, 2, 3];
    let sum = pilothouse_domain::hash::sha256(&body);
    let text = format!(
        "{OFFER_PREFIX}{}",
        URL_SAFE_NO_PAD.encode([&body[..], &sum[..4]].concat())
    );
    assert_eq!(
        PairingOffer::parse(&text).unwrap_err(),
        OfferParseError::Version { found: 9 }
    );
}

#[test]
fn what_cannot_stand_in_an_offer_is_refused_when_writing() {
    let bad = PairingOffer {
        addresses: vec![],
        ..offer()
    };
    assert_eq!(bad.to_text(), Err(OfferWriteError::Addresses(0)));
    let bad = PairingOffer {
        addresses: vec!["a:1".into(); 9],
        ..offer()
    };
    assert_eq!(bad.to_text(), Err(OfferWriteError::Addresses(9)));
    let bad = PairingOffer {
        host_name: "x".repeat(201),
        ..offer()
    };
    assert!(matches!(bad.to_text(), Err(OfferWriteError::Text(_))));
    let bad = PairingOffer {
        host_name: String::new(),
        ..offer()
    };
    assert!(matches!(bad.to_text(), Err(OfferWriteError::Text(_))));
}

fn address() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<([u8; 4], u16)>()
            .prop_map(|(ip, port)| std::net::SocketAddr::from((ip, port)).to_string()),
        any::<([u8; 16], u16)>()
            .prop_map(|(ip, port)| std::net::SocketAddr::from((ip, port)).to_string()),
        "[a-z0-9.-]{1,60}:[0-9]{1,5}",
        "\\PC{1,40}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_offer_reads_back_as_written(
        host in any::<[u8; 16]>(), pin in any::<[u8; 32]>(), secret in any::<[u8; 16]>(), expires_at_ms in any::<u64>(),
        host_name in "\\PC{1,40}", addresses in proptest::collection::vec(address(), 1..=8),
    ) {
        let offer = PairingOffer {
            version: OFFER_VERSION, host_id: HostId::from_bytes(host), host_name, addresses,
            spki_sha256: SpkiHash::from_bytes(pin), secret: PairingSecret::from_bytes(secret), expires_at_ms,
        };
        prop_assert_eq!(PairingOffer::parse(&offer.to_text().unwrap()).unwrap(), offer);
    }

    #[test]
    fn one_wrong_character_is_always_found(at in 0usize..1000, to in "[A-Za-z0-9_-]") {
        let offer = offer();
        let mut text = offer.to_text().unwrap();
        let at = OFFER_PREFIX.len() + at % (text.len() - OFFER_PREFIX.len());
        prop_assume!(text[at..=at] != to);
        text.replace_range(at..=at, &to);
        prop_assert!(PairingOffer::parse(&text).is_err());
    }

    #[test]
    fn parsing_never_panics(text in "\\PC{0,80}", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
        let _ = PairingOffer::parse(&text);
        let _ = PairingOffer::parse(&format!("{OFFER_PREFIX}{text}"));
        let sum = pilothouse_domain::hash::sha256(&bytes);
        let _ = PairingOffer::parse(&format!("{OFFER_PREFIX}{}", URL_SAFE_NO_PAD.encode([&bytes[..], &sum[..4]].concat())));
    }
}
