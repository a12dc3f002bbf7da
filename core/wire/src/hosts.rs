//! Which `Host` headers a listener answers to: the guard against DNS rebinding.

use std::{collections::BTreeSet, net::IpAddr};

/// The names and addresses under which a host may be asked, and the ports.
///
/// A page in a browser can be made to send requests to any address, but it cannot choose the `Host` header: that holds
/// the name it was loaded from. So an unknown name is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostAllowList {
    hosts: BTreeSet<String>,
    ports: BTreeSet<u16>,
    any_ip: bool,
}

impl HostAllowList {
    /// Allows these names or IP addresses (without port) and these ports; no port at all means every port.
    pub fn new<H: AsRef<str>>(
        hosts: impl IntoIterator<Item = H>,
        ports: impl IntoIterator<Item = u16>,
    ) -> Self {
        Self {
            hosts: hosts
                .into_iter()
                .map(|host| canonical(host.as_ref()))
                .collect(),
            ports: ports.into_iter().collect(),
            any_ip: false,
        }
    }

    /// Allows every literal IP address as well: a rebound *name* is still refused, and a host behind a port-forward
    /// or with changing addresses stays reachable.
    pub fn with_any_ip(mut self) -> Self {
        self.any_ip = true;
        self
    }

    /// Whether a `Host` header's value is allowed.
    pub fn allows(&self, header: &str) -> bool {
        let Some((host, port)) = split_port(header) else {
            return false;
        };
        let host = canonical(host);
        let known = self.hosts.contains(&host) || (self.any_ip && host.parse::<IpAddr>().is_ok());
        known && (self.ports.is_empty() || port.is_some_and(|port| self.ports.contains(&port)))
    }
}

/// Lower case, no brackets, no final dot, IP addresses in their shortest form.
fn canonical(host: &str) -> String {
    let host = host
        .strip_prefix('[')
        .and_then(|h| h.strip_suffix(']'))
        .unwrap_or(host);
    match host.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().to_string(),
        Err(_) => host.trim_end_matches('.').to_ascii_lowercase(),
    }
}

fn split_port(header: &str) -> Option<(&str, Option<u16>)> {
    let end_of_host = if header.starts_with('[') {
        header.find(']')? + 1
    } else {
        header.find(':').unwrap_or(header.len())
    };
    let (host, rest) = header.split_at(end_of_host);
    if host.is_empty() {
        return None;
    }
    match rest.strip_prefix(':') {
        Some(port) => Some((host, Some(port.parse().ok()?))),
        None if rest.is_empty() => Some((host, None)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::HostAllowList;

    #[test]
    fn listed_names_and_addresses_are_allowed_on_listed_ports_only() {
        let list = HostAllowList::new(["Studio.local", "192.168.1.5", "fe80::1"], [7433]);
        for allowed in [
            "studio.local:7433",
            "STUDIO.LOCAL.:7433",
            "192.168.1.5:7433",
            "[fe80::1]:7433",
            "[FE80:0::1]:7433",
        ] {
            assert!(list.allows(allowed), "{allowed}");
        }
        for refused in [
            "",
            ":7433",
            "studio.local",
            "studio.local:7434",
            "evil.example:7433",
            "192.168.1.6:7433",
            "[fe80::1]7433",
            "[fe80::1",
            "studio.local:x",
            "studio.local:7433:1",
            "studio.local.evil.example:7433",
        ] {
            assert!(!list.allows(refused), "{refused}");
        }
    }

    #[test]
    fn any_ip_still_refuses_unknown_names() {
        let list = HostAllowList::new(["localhost"], []).with_any_ip();
        assert!(list.allows("10.0.0.1:9"));
        assert!(list.allows("localhost"));
        assert!(!list.allows("rebound.example:9"));
    }
}
