// Crowds: which connection gives way when there are too many.

package serving

// crowd is a bounded number of connections. The listener's lock guards it.
type crowd struct {
	most  int
	of    map[string][]*Conn // by the client's address, the oldest first
	count int
	// newestLeaves has the newest connection give way, and not the oldest.
	newestLeaves bool
}

func newCrowd(most int) crowd { return crowd{most: most, of: map[string][]*Conn{}} }

// add counts a connection, and returns the one that has to give way, if any.
func (w *crowd) add(c *Conn) *Conn {
	w.of[c.source] = append(w.of[c.source], c)
	if w.count++; w.count <= w.most {
		return nil
	}
	victim := w.victim(c)
	victim.leave()
	return victim
}

// victim returns a connection of the address with the most: the oldest but for the newcomer, or the newest.
func (w *crowd) victim(newcomer *Conn) *Conn {
	most, victim := 0, newcomer
	for _, conns := range w.of {
		next := conns[0]
		if w.newestLeaves {
			next = conns[len(conns)-1]
		} else if next == newcomer {
			continue
		}
		if len(conns) > most || len(conns) == most && (next.entered > victim.entered) == w.newestLeaves {
			most, victim = len(conns), next
		}
	}
	return victim
}

// remove has a connection counted no longer.
func (w *crowd) remove(c *Conn) {
	conns := w.of[c.source]
	for i := range conns {
		if conns[i] != c {
			continue
		}
		w.count--
		if len(conns) == 1 {
			delete(w.of, c.source)
			return
		}
		w.of[c.source] = append(conns[:i:i], conns[i+1:]...)
		return
	}
}
