//! Test equipment for WiFu: pairs in virtual time, conformance, allocation counting, style checks.
