//! Which protocol version two sides speak.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What this build speaks. Within a version the protocol only grows, since version 0.1.0.
pub const PROTOCOL: ProtocolRange = ProtocolRange { min: 1, max: 1 };

/// Protocol versions that a side speaks, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolRange {
    /// The oldest.
    pub min: u16,
    /// The newest.
    pub max: u16,
}

impl fmt::Display for ProtocolRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "{}", self.min)
        } else {
            write!(f, "{} to {}", self.min, self.max)
        }
    }
}

/// Which side has to be updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateNeeded {
    /// The app on the device.
    Device,
    /// The daemon on the host.
    Host,
}

/// No version in common.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("the app speaks protocol {device} and the host {host}; update the {}", match .update { UpdateNeeded::Device => "app on this device", UpdateNeeded::Host => "host" })]
pub struct VersionRefusal {
    /// The device's range.
    pub device: ProtocolRange,
    /// The host's range.
    pub host: ProtocolRange,
    /// Who is behind.
    pub update: UpdateNeeded,
}

/// The newest version that both know.
///
/// # Errors
/// [`VersionRefusal`] if there is none. A range that is upside down counts as empty, and its side must be updated.
pub fn negotiate(device: ProtocolRange, host: ProtocolRange) -> Result<u16, VersionRefusal> {
    let newest = device.max.min(host.max);
    if newest >= device.min.max(host.min) {
        return Ok(newest);
    }
    let update = if device.min > device.max || (host.min <= host.max && device.max < host.min) {
        UpdateNeeded::Device
    } else {
        UpdateNeeded::Host
    };
    Err(VersionRefusal {
        device,
        host,
        update,
    })
}

#[cfg(test)]
mod tests {
    use super::{ProtocolRange, UpdateNeeded, negotiate};

    fn range(min: u16, max: u16) -> ProtocolRange {
        ProtocolRange { min, max }
    }

    #[test]
    fn the_newest_common_version_is_chosen() {
        assert_eq!(negotiate(range(1, 3), range(2, 5)), Ok(3));
        assert_eq!(negotiate(range(2, 5), range(1, 3)), Ok(3));
        assert_eq!(negotiate(range(1, 1), range(1, 1)), Ok(1));
    }

    #[test]
    fn without_overlap_the_refusal_names_both_ranges_and_who_must_update() {
        let refusal = negotiate(range(1, 2), range(3, 4)).unwrap_err();
        assert_eq!(refusal.update, UpdateNeeded::Device);
        assert_eq!(
            refusal.to_string(),
            "the app speaks protocol 1 to 2 and the host 3 to 4; update the app on this device"
        );
        assert_eq!(
            negotiate(range(3, 3), range(1, 2)).unwrap_err().update,
            UpdateNeeded::Host
        );
    }

    #[test]
    fn an_empty_range_is_refused_and_blamed_on_its_side() {
        assert_eq!(
            negotiate(range(3, 1), range(1, 5)).unwrap_err().update,
            UpdateNeeded::Device
        );
        assert_eq!(
            negotiate(range(1, 5), range(3, 1)).unwrap_err().update,
            UpdateNeeded::Host
        );
    }
}
