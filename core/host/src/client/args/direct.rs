//! `direct`: agents that are driven from this device.

use super::DeviceArgs;
use clap::{Args, Subcommand};

/// `direct`
#[derive(Debug, Clone, Subcommand)]
pub enum DirectCommand {
    /// Add a codex or an opencode that listens somewhere; it is shown like a host
    #[command(
        after_help = "Example:\n  ssh -N -L 4500:127.0.0.1:4500 box &\n  pilothouse direct add box --codex ws://127.0.0.1:4500 --dir /home/me/app < token\n\nThe token or password of its server is read from standard input. There are no checkpoints of files and no wake-up there, and it goes\non only while a pilothouse runs on this device."
    )]
    Add(DirectAddArgs),
    /// Change where one listens, its token or password, or why its address is trusted; its threads stay
    #[command(
        after_help = "Examples:\n  pilothouse direct set box --url ws://127.0.0.1:4501\n  pilothouse direct set box --token < token"
    )]
    Set(DirectSetArgs),
    /// List the agents that are driven from here
    List(DirectListArgs),
    /// Take one away, and its secret with it; its threads can still be read
    Remove(DirectRemoveArgs),
}

/// `direct list`
#[derive(Debug, Clone, Args)]
pub struct DirectListArgs {
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
}

/// `direct set`
#[derive(Debug, Clone, Args)]
pub struct DirectSetArgs {
    /// Its name or the first letters of its id
    pub agent: String,
    /// What is changed.
    #[command(flatten)]
    pub change: DirectChangeArgs,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
}

/// What is changed of an agent: at least one of these.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = true)]
pub struct DirectChangeArgs {
    /// Where its server listens now
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Read a new token or password from standard input
    #[arg(long)]
    pub token: bool,
    /// SHA-256 of its server's public key, 64 hexadecimal digits, in place of the public authorities
    #[arg(long, value_name = "SHA256", conflicts_with_all = ["private_network", "public_authorities"])]
    pub pin: Option<String>,
    /// The address lies inside a private network, e.g. a VPN: what is said is not encrypted by Pilothouse
    #[arg(long, conflicts_with = "public_authorities")]
    pub private_network: bool,
    /// Neither: its key is vouched for by the public authorities, or it listens on this machine
    #[arg(long)]
    pub public_authorities: bool,
}

/// `direct remove`
#[derive(Debug, Clone, Args)]
pub struct DirectRemoveArgs {
    /// Its name or the first letters of its id
    pub agent: String,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
}

/// `direct add`
#[derive(Debug, Clone, Args)]
pub struct DirectAddArgs {
    /// What it is called here
    pub name: String,
    /// Which server.
    #[command(flatten)]
    pub server: DirectServer,
    /// A directory of that machine that threads can work in; can be given several times
    #[arg(long = "dir", value_name = "DIR", required = true)]
    pub directories: Vec<String>,
    /// SHA-256 of its server's public key, 64 hexadecimal digits, in place of the public authorities
    #[arg(long, value_name = "SHA256", conflicts_with = "private_network")]
    pub pin: Option<String>,
    /// The address lies inside a private network, e.g. a VPN: what is said is not encrypted by Pilothouse
    #[arg(long)]
    pub private_network: bool,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
}

/// Which server, and where it listens.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub struct DirectServer {
    /// Where `codex app-server` listens: wss://HOST[:PORT], or ws:// on this machine (a forward of SSH's) and in a private network
    #[arg(long, value_name = "URL")]
    pub codex: Option<String>,
    /// Where `opencode serve` listens: https://HOST[:PORT], or http:// on this machine (a forward of SSH's) and in a private network
    #[arg(long, value_name = "URL")]
    pub opencode: Option<String>,
}
