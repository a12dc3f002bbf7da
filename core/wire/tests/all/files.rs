//! Identities as files.

use pilothouse_wire::{
    identity::{
        DeviceIdentity, DeviceKey, FileKey, HostIdentity, IdentityError, P256PublicKey, SpkiHash,
    },
    keyfile::KeyFileError,
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{Arc, Barrier},
};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn an_identity_is_made_once_for_its_owner_only_and_then_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let host = dir.path().join(HostIdentity::FILE);
    let device = dir.path().join(FileKey::FILE);
    let first = HostIdentity::load_or_create(&host).unwrap();
    let again = HostIdentity::load_or_create(&host).unwrap();
    assert_eq!(first.spki_sha256(), again.spki_sha256());
    let key = FileKey::load_or_create(&device).unwrap();
    assert_eq!(
        key.public_key(),
        FileKey::load_or_create(&device).unwrap().public_key()
    );
    assert_eq!((mode(&host), mode(&device)), (0o600, 0o600));
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [FileKey::FILE, HostIdentity::FILE],
        "no draft is left behind"
    );
}

#[test]
fn racing_creators_end_up_with_one_identity() {
    let dir = tempfile::tempdir().unwrap();
    let path = Arc::new(dir.path().join("key.pem"));
    let barrier = Arc::new(Barrier::new(8));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (path, barrier) = (path.clone(), barrier.clone());
            std::thread::spawn(move || {
                barrier.wait();
                HostIdentity::load_or_create(&path).unwrap().spki_sha256()
            })
        })
        .collect();
    let pins: Vec<SpkiHash> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    assert!(pins.iter().all(|pin| *pin == pins[0]), "{pins:?}");
}

#[test]
fn an_exposed_empty_or_foreign_file_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.pem");
    let refused = |path: &Path| match HostIdentity::load_or_create(path).unwrap_err() {
        IdentityError::File(error) => error,
        other => panic!("{other}"),
    };
    for content in [
        "",
        " \n",
        "hello",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    ] {
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(
            matches!(refused(&path), KeyFileError::Malformed { .. }),
            "{content:?}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let error = refused(&path);
    assert!(matches!(error, KeyFileError::Exposed { mode: 0o640, .. }));
    assert!(error.to_string().contains("chmod 600"), "{error}");
    assert!(matches!(
        refused(&dir.path().join("no/such/dir.pem")),
        KeyFileError::Io { .. }
    ));

    // A key with another key's certificate.
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    HostIdentity::load_or_create(&one).unwrap();
    HostIdentity::load_or_create(&two).unwrap();
    let (one, two_text) = (
        fs::read_to_string(one).unwrap(),
        fs::read_to_string(&two).unwrap(),
    );
    let mixed = one
        .split_once("-----BEGIN CERTIFICATE")
        .unwrap()
        .0
        .to_owned()
        + "-----BEGIN CERTIFICATE"
        + two_text.split_once("-----BEGIN CERTIFICATE").unwrap().1;
    fs::write(&two, mixed).unwrap();
    assert!(matches!(refused(&two), KeyFileError::Malformed { .. }));
}

#[test]
fn public_keys_are_read_in_both_forms_and_only_on_p256() {
    let key = FileKey::generate().unwrap();
    let public = key.public_key().unwrap();
    assert_eq!(
        P256PublicKey::from_spki_der(&public.spki_der()).unwrap(),
        public
    );
    assert_eq!(P256PublicKey::from_sec1(public.sec1()).unwrap(), public);
    let other = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let spki = rcgen::PublicKeyData::subject_public_key_info(&other);
    assert!(matches!(
        P256PublicKey::from_spki_der(&spki),
        Err(IdentityError::NotP256)
    ));
    assert!(P256PublicKey::from_sec1(&public.sec1()[..64]).is_err());
    let pin = public.spki_sha256();
    assert_eq!(pin.to_string().parse::<SpkiHash>().unwrap(), pin);
    assert!("nonsense".parse::<SpkiHash>().is_err());
    assert_eq!(
        DeviceIdentity::new(Arc::new(key)).unwrap().spki_sha256(),
        pin
    );
}

#[test]
fn debug_shows_no_secret() {
    let host = HostIdentity::generate().unwrap();
    assert_eq!(
        format!("{host:?}"),
        format!("HostIdentity({})", host.spki_sha256())
    );
}
