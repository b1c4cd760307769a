//! Units, the decoded header and the wire codecs of WiFu.
