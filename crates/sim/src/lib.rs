//! Models, scripts and crashes: how Firn is proved.
