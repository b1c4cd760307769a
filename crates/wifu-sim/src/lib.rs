//! Virtual-time networks for WiFu: the mock network.
