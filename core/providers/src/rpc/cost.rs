//! Amounts of money as agents say them: numbers of US dollars with a fraction.

use serde_json::Value;

/// Billionths of a US dollar; `None` for what is no amount, and for 0, which agents say of what they have no price for.
pub(crate) fn nano_usd(amount: &Value) -> Option<u64> {
    let digits = format!("{:.9}", amount.as_f64()?).replace('.', "");
    digits.parse().ok().filter(|nano| *nano > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn amounts_are_read_as_whole_billionths_and_nonsense_is_none() {
        assert_eq!(
            nano_usd(&json!(0.001_800_000_000_000_000_2)),
            Some(1_800_000)
        );
        assert_eq!(nano_usd(&json!(12)), Some(12_000_000_000));
        assert_eq!(nano_usd(&json!(6e-7)), Some(600));
        for odd in [
            json!(0),
            json!(-1.5),
            json!(1e-12),
            json!(1e300),
            json!("1"),
            json!(null),
        ] {
            assert_eq!(nano_usd(&odd), None, "{odd}");
        }
    }
}
