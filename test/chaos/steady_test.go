// Where nothing changes, nothing is written.

package chaos

// writesNothing starts a new operator over a job that runs: every object is seen
// anew, and none is written.
func (l *lane) writesNothing() {
	l.t.Helper()
	l.restart()
	l.wire.arm(0, fault{})
	l.idle()
	l.replay()
	if w := l.wire.writes(); len(w) > 0 {
		l.t.Errorf("a new operator wrote over a job that runs: %v", w)
	}
}
