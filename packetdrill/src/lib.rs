//! `libwifu_packetdrill.so`: what packetdrill's `--so_filename` opens.
//!
//! packetdrill asks the object for sockets, packets and time, and gets those of a
//! [`wifu_testkit::packetdrill::Stack`]: a script of minutes is played in an instant, without root
//! and without a network. [`table`] has the functions as C sees them, [`world`] what they do,
//! [`asked`] what packetdrill asks elsewhere.
//!
//! packetdrill makes calls that wait in a thread of its own, while the first thread goes on with
//! the script. Time moves where a thread sleeps, waits for a packet or looks at the clock for long,
//! and where the first makes a call that waits. A call of the other thread waits until time has
//! moved far enough, and the next time that thread asks for is that at which the call was finished.

pub mod asked;
pub mod table;
pub mod world;
