//! Background work as values.
