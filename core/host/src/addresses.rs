//! What this machine is called and where it can be reached: for pairing codes and for the names that are answered to.

use pilothouse_wire::{hosts::HostAllowList, offer::OFFER_ADDRESSES};
use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

/// The machine's name, without domain.
pub(crate) fn machine_name() -> String {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let short = name.split('.').next().unwrap_or_default();
    if short.is_empty() {
        "host".to_owned()
    } else {
        short.to_owned()
    }
}

/// `host:port` for a pairing code, best first: what the configuration names, then where the daemon listens.
pub(crate) fn for_pairing(configured: &[String], listening: SocketAddr) -> Vec<String> {
    let port = listening.port();
    let mut all = configured.to_vec();
    if listening.ip().is_unspecified() {
        all.extend(
            of_this_machine()
                .into_iter()
                .map(|ip| SocketAddr::new(ip, port).to_string()),
        );
        all.push(format!("{}.local:{port}", machine_name()));
    } else {
        all.push(listening.to_string());
    }
    let mut seen = BTreeSet::new();
    all.retain(|address| seen.insert(address.clone()));
    all.truncate(OFFER_ADDRESSES);
    all
}

/// The names that a device may ask for. Any literal address is allowed: a rebound page has a name.
pub(crate) fn allowed(configured: &[String], addresses: &[String]) -> HostAllowList {
    let machine = machine_name();
    let full = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let mut names = vec![
        "localhost".to_owned(),
        format!("{machine}.local"),
        machine,
        full,
    ];
    names.extend(configured.iter().cloned());
    names.extend(
        addresses
            .iter()
            .filter_map(|a| a.rsplit_once(':'))
            .map(|(host, _)| host.to_owned()),
    );
    HostAllowList::new(names, []).with_any_ip()
}

/// This machine's addresses that another one may reach, the one of the default route first.
fn of_this_machine() -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = default_route().into_iter().collect();
    if let Ok(table) = std::fs::read_to_string("/proc/net/fib_trie") {
        all.extend(local_v4(&table).into_iter().map(IpAddr::V4));
    }
    if let Ok(table) = std::fs::read_to_string("/proc/net/if_inet6") {
        all.extend(global_v6(&table).into_iter().map(IpAddr::V6));
    }
    let mut seen = BTreeSet::new();
    all.retain(|ip| !ip.is_loopback() && !ip.is_unspecified() && seen.insert(*ip));
    if all.is_empty() {
        all.push(Ipv4Addr::LOCALHOST.into());
    }
    all
}

/// The source address of the default route. Nothing is sent: connecting a UDP socket only looks the route up.
fn default_route() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The addresses that `/proc/net/fib_trie` marks as this machine's own.
fn local_v4(table: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut last = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line.starts_with("/32 host LOCAL")
            && let Some(address) = last
            && !found.contains(&address)
        {
            found.push(address);
        }
    }
    found
}

/// The addresses of global scope in `/proc/net/if_inet6`.
fn global_v6(table: &str) -> Vec<Ipv6Addr> {
    table
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let address = u128::from_str_radix(fields.next()?, 16).ok()?;
            (fields.nth(2)? == "00").then(|| Ipv6Addr::from(address))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_on_one_address_is_offered_there_and_where_the_configuration_says() {
        let offered = for_pairing(&["studio.vpn:7433".into()], "127.0.0.1:9".parse().unwrap());
        assert_eq!(offered, ["studio.vpn:7433", "127.0.0.1:9"]);
    }

    #[test]
    fn a_daemon_on_all_interfaces_is_offered_at_real_addresses() {
        let offered = for_pairing(&[], "[::]:7433".parse().unwrap());
        assert!(
            (1..=OFFER_ADDRESSES).contains(&offered.len()),
            "{offered:?}"
        );
        assert!(
            offered
                .iter()
                .all(|a| a.ends_with(":7433") && !a.contains("0.0.0.0") && !a.starts_with("[::]"))
        );
    }

    #[test]
    fn the_kernels_tables_give_own_addresses_only() {
        let trie = "  +-- 127.0.0.0/8 2 0 2\n     |-- 127.0.0.1\n        /32 host LOCAL\n  |-- 10.1.2.0\n   /24 link UNICAST\n  |-- 10.1.2.3\n     /32 host LOCAL\n";
        assert_eq!(
            local_v4(trie),
            [Ipv4Addr::LOCALHOST, Ipv4Addr::new(10, 1, 2, 3)]
        );
        let inet6 = "fe800000000000000000000000000001 02 40 20 80     eth0\n20010db8000000000000000000000005 02 40 00 80 eth0\n";
        assert_eq!(
            global_v6(inet6),
            ["2001:db8::5".parse::<Ipv6Addr>().unwrap()]
        );
    }

    #[test]
    fn unknown_names_are_refused_and_configured_ones_are_not() {
        let list = allowed(&["studio.example".into()], &["vpn.example:7433".into()]);
        for good in [
            "localhost:1",
            "127.0.0.1:7433",
            "studio.example:7433",
            "vpn.example:7433",
        ] {
            assert!(list.allows(good), "{good}");
        }
        assert!(!list.allows("rebound.example:7433"));
    }
}
