//! Tests of what transcripts cannot say.
