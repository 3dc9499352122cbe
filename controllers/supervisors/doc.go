// Package supervisors is the manager's side of the stream to the supervisors of pods. Server accepts the streams, and asks of each
// which pod it is of and which TrainingJob that belongs to. Hub keeps what the supervisors report, and what they should do, for the
// reconciler. Certificates are the server's.
//
// Nothing here survives the process: the next leader learns it again from the first report on each stream.
package supervisors
