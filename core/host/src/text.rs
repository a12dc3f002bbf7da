//! What the host's verbs say to a person.

use crate::control::{ListedDevice, Offer, PairedDevice};
use pilothouse_domain::Scope;
use pilothouse_wire::message::{CheckOutcome, DoctorReport};
use qrcode::{EcLevel, QrCode, render::unicode::Dense1x2};
use std::fmt::Write as _;

/// The QR code, the code as text, how long it is good, and what to do with it.
pub(crate) fn offer(offer: &Offer, now_ms: u64) -> anyhow::Result<String> {
    let qr = QrCode::with_error_correction_level(offer.code.as_bytes(), EcLevel::L)?;
    // Light modules are drawn, dark ones left out: terminals are mostly dark, and scanners read both.
    let drawn = qr
        .render::<Dense1x2>()
        .dark_color(Dense1x2::Dark)
        .light_color(Dense1x2::Light)
        .quiet_zone(true)
        .build();
    let minutes = offer.expires_at_ms.saturating_sub(now_ms).div_ceil(60_000);
    Ok(format!(
        "{drawn}\n\nScan this with the Pilothouse app, or run on another machine:\n\n  pilothouse join '{}'\n\n\
         It pairs one device with {} ({}) and is good for {minutes} minutes. Whoever has it gets in: show it to nobody.",
        offer.code,
        offer.host_name,
        offer.addresses.join(", "),
    ))
}

/// A device that came in.
pub(crate) fn paired(device: &PairedDevice) -> String {
    let platform = if device.platform.is_empty() {
        String::new()
    } else {
        format!(" ({})", device.platform)
    };
    format!(
        "paired with {}{platform}, which may {}",
        device.name,
        scopes(&device.scopes)
    )
}

fn scopes(scopes: &[Scope]) -> String {
    let word = |scope: &Scope| match scope {
        Scope::Read => "read",
        Scope::Operate => "operate",
        Scope::Approve => "approve",
        Scope::Admin => "administer",
    };
    scopes.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The list of devices.
pub(crate) fn devices(devices: &[ListedDevice], now_ms: u64) -> String {
    if devices.is_empty() {
        return "no device is paired; run `pilothouse pair`".to_owned();
    }
    let mut lines = String::new();
    for device in devices {
        let state = match (device.revoked, device.connected) {
            (true, _) => "revoked",
            (_, true) => "connected",
            _ => "not connected",
        };
        let days = now_ms.saturating_sub(device.paired_at_ms) / 86_400_000;
        let since = match days {
            0 => "today".to_owned(),
            1 => "yesterday".to_owned(),
            n => format!("{n} days ago"),
        };
        let _ = writeln!(
            lines,
            "{}  {}  {state}, may {}, paired {since}",
            device.device,
            device.name,
            scopes(&device.scopes)
        );
    }
    lines.trim_end().to_owned()
}

/// The doctor's report: a line per check, and under it what to do.
pub(crate) fn report(report: &DoctorReport) -> String {
    let width = report
        .checks
        .iter()
        .map(|check| check.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut lines = String::new();
    for check in &report.checks {
        let word = match check.outcome {
            CheckOutcome::Ok => "ok  ",
            CheckOutcome::Warning => "warn",
            CheckOutcome::Failed => "FAIL",
            CheckOutcome::Skipped => "-   ",
        };
        let indent = " ".repeat(width + 8);
        let finding = check.finding.replace('\n', &format!("\n{indent}"));
        let _ = writeln!(lines, "{word}  {:width$}  {finding}", check.name);
        if let Some(step) = &check.next_step {
            let _ = writeln!(lines, "{indent}→ {step}");
        }
    }
    lines.trim_end().to_owned()
}
