//! Quantities on the wire: text, read into amounts and written back.

use flagship_base::quantity::{Quantity, QuantityError};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

/// The amount that a text on the wire stands for.
pub fn read(wire: &WireQuantity) -> Result<Quantity, QuantityError> {
    wire.0.parse()
}

/// The text that an amount has on the wire.
pub fn write(amount: Quantity) -> WireQuantity {
    WireQuantity(amount.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_text_on_the_wire() {
        let amount = "1.5Gi".parse().unwrap();
        let wire = write(amount);
        assert_eq!(wire, WireQuantity("1536Mi".to_owned()));
        assert_eq!(read(&wire), Ok(amount));
        assert!(read(&WireQuantity("much".to_owned())).is_err());
    }
}
