//! Error models: what becomes of bits at a given ratio of signal to interference and noise.

/// How OFDM frames are judged. DSSS and CCK always follow the formulas of ns-3's `DsssErrorRateModel`
/// unless the model is `Ideal`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum ErrorModel {
    /// Pei and Henderson's model, validated against hardware at NIST.
    #[default]
    Nist,
    /// The older model of YANS (Lacage and Henderson): fewer terms of the union bound.
    Yans,
    /// Every bit survives at this SINR in dB and above, none below, in every mode.
    Ideal {
        /// The threshold, dB.
        threshold_db: f64,
    },
}
