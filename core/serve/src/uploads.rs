//! Files on their way in: in memory until they are whole and fit their address, then the ledger keeps them.

use pilothouse_domain::{BlobHash, DeviceId, limits};
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

/// Files that may be on their way at once, from all devices; the one begun first gives way. With the bytes of each bounded,
/// so is the memory that devices can have a host hold.
const UPLOADS: usize = 4;

/// What a part of a file says of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) hash: BlobHash,
    pub(crate) offset: u64,
    pub(crate) total: u64,
}

/// How far a file is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more to come.
    Partly { have: u64 },
    /// It is whole and fits its address.
    Whole(Vec<u8>),
}

#[derive(Debug)]
struct Upload {
    device: DeviceId,
    hash: BlobHash,
    bytes: Vec<u8>,
}

/// Files on their way in.
#[derive(Debug, Default)]
pub(crate) struct Uploads(Mutex<VecDeque<Upload>>);

impl Uploads {
    /// Takes a part. One that does not follow what is there changes nothing.
    pub(crate) fn take(
        &self,
        device: DeviceId,
        part: Part,
        data: &[u8],
    ) -> Result<Progress, String> {
        if part.total == 0 || part.total > limits::ATTACHMENT_BYTES {
            return Err(format!(
                "a file of {} bytes cannot be sent; 1 to {} can",
                part.total,
                limits::ATTACHMENT_BYTES
            ));
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_this = |upload: &Upload| upload.device == device && upload.hash == part.hash;
        let at = all.iter().position(is_this);
        let mut upload = at.and_then(|at| all.remove(at)).unwrap_or(Upload {
            device,
            hash: part.hash,
            bytes: Vec::new(),
        });
        if part.offset == 0 {
            upload.bytes.clear();
        }
        let have = upload.bytes.len() as u64;
        if part.offset == have {
            if have + data.len() as u64 > part.total {
                return Err("a file is longer than it said".to_owned());
            }
            upload.bytes.extend_from_slice(data);
        }
        let have = upload.bytes.len() as u64;
        if have == part.total {
            if BlobHash::of(&upload.bytes) != part.hash {
                return Err("a file does not fit its address".to_owned());
            }
            return Ok(Progress::Whole(upload.bytes));
        }
        all.push_back(upload);
        if all.len() > UPLOADS {
            all.pop_front();
        }
        Ok(Progress::Partly { have })
    }

    /// Forgets what came of a file.
    pub(crate) fn forget(&self, device: DeviceId, hash: BlobHash) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|upload| upload.device != device || upload.hash != hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(n: u8) -> DeviceId {
        DeviceId::from_bytes([n; 16])
    }

    fn part(whole: &[u8], offset: u64) -> Part {
        Part {
            hash: BlobHash::of(whole),
            offset,
            total: whole.len() as u64,
        }
    }

    #[test]
    fn a_file_comes_in_parts_and_is_whole_only_if_it_fits_its_address() {
        let uploads = Uploads::default();
        let whole = b"a picture of a cat";
        let partly = |have| Ok(Progress::Partly { have });
        assert_eq!(
            uploads.take(device(1), part(whole, 0), &whole[..5]),
            partly(5)
        );
        // Said again, or too early: how much is there.
        assert_eq!(
            uploads.take(device(1), part(whole, 9), &whole[9..]),
            partly(5)
        );
        assert_eq!(
            uploads.take(device(1), part(whole, 0), &whole[..6]),
            partly(6)
        );
        // Another device's is another one.
        assert_eq!(
            uploads.take(device(2), part(whole, 0), &whole[..1]),
            partly(1)
        );
        assert_eq!(
            uploads.take(device(1), part(whole, 6), &whole[6..]),
            Ok(Progress::Whole(whole.to_vec()))
        );
        let mut other = whole.to_vec();
        other[0] = b'A';
        assert!(uploads.take(device(1), part(whole, 0), &other).is_err());
        assert!(uploads.take(device(1), part(whole, 0), &[0; 40]).is_err());
    }

    #[test]
    fn what_a_host_holds_of_files_on_their_way_is_bounded() {
        let uploads = Uploads::default();
        for n in 0..20 {
            uploads.take(device(n), part(b"abc", 0), b"a").unwrap();
        }
        assert_eq!(uploads.0.lock().unwrap().len(), UPLOADS);
        // The first has given way: it is told to begin anew.
        let again = uploads.take(device(0), part(b"abc", 1), b"b");
        assert_eq!(again, Ok(Progress::Partly { have: 0 }));
        let huge = Part {
            total: limits::ATTACHMENT_BYTES + 1,
            ..part(b"abc", 0)
        };
        assert!(uploads.take(device(1), huge, b"a").is_err());
    }
}
