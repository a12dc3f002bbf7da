//! Stored texts, fetched from the host part by part.

use crate::{device::Device, host::FakeHost};
use pilothouse_domain::BlobHash;
use pilothouse_engine::{Page, Query, QueryError};

const MIB: usize = 1024 * 1024;

fn ask(
    device: &Device,
    hash: BlobHash,
    offset: u64,
    len: u32,
) -> Result<(u64, Vec<u8>), QueryError> {
    let query = Query::Body {
        host: crate::host::HOST,
        hash,
        offset,
        len,
    };
    match device.core.query(query)? {
        Page::Body {
            offset: from,
            total,
            bytes,
        } => {
            assert_eq!(from, offset);
            Ok((total, bytes))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_body_is_fetched_in_full_whatever_its_length_from_a_new_host_and_an_old_one() {
    for encodes in [true, false] {
        let host = FakeHost::start();
        let bodies: Vec<Vec<u8>> = [0, 1, 5000, 256 * 1024, 256 * 1024 + 1, 3 * MIB + 7]
            .iter()
            .map(|length| (0..*length).map(|n| (n * 7 % 251) as u8).collect())
            .collect();
        host.with(|world| {
            world.encodes = encodes;
            for body in &bodies {
                world.bodies.insert(BlobHash::of(body), body.clone());
            }
        });
        let device = Device::paired(&host);
        device.synchronised();
        for body in &bodies {
            let hash = BlobHash::of(body);
            let all = ask(&device, hash, 0, u32::MAX).unwrap();
            assert!(all == (body.len() as u64, body.clone()), "{}", body.len());
            let middle = body.len() / 3;
            let (total, rest) = ask(&device, hash, middle as u64, 300 * 1024).unwrap();
            let end = (middle + 300 * 1024).min(body.len());
            assert!(total == body.len() as u64 && rest == body[middle..end]);
            let beyond = ask(&device, hash, body.len() as u64 + 9, 10).unwrap();
            assert_eq!(beyond, (body.len() as u64, Vec::new()));
        }
    }
}

#[test]
fn a_body_is_given_in_pages_and_a_wrong_one_is_not_given() {
    let host = FakeHost::start();
    let body: Vec<u8> = (0..5 * MIB).map(|n| (n / 1000) as u8).collect();
    let hash = BlobHash::of(&body);
    let forged = BlobHash::of(b"another");
    host.with(|world| {
        world.encodes = true;
        world.bodies.insert(hash, body.clone());
        world.bodies.insert(forged, body[..1000].to_vec());
    });
    let device = Device::paired(&host);
    device.synchronised();
    let (total, mut page) = ask(&device, hash, 0, u32::MAX).unwrap();
    assert_eq!((total, page.len()), (5 * MIB as u64, 4 * MIB));
    page.extend(ask(&device, hash, 4 * MIB as u64, u32::MAX).unwrap().1);
    assert!(page == body);
    let refused = |hash| ask(&device, hash, 0, u32::MAX).unwrap_err().to_string();
    assert!(refused(forged).contains("fits its address"));
    assert!(refused(BlobHash::of(b"nowhere")).contains("no such text"));
}
