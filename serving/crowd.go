// Crowds: which connection gives way when there are too many.

package serving

// crowd is a bounded number of connections. The listener's lock guards it.
type crowd struct {
	most  int
	of    map[string][]*Conn // by the client's address, the oldest first
	count int
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

// victim returns the oldest connection of the address with the most, but for the newcomer.
func (w *crowd) victim(newcomer *Conn) *Conn {
	most, victim := 0, newcomer
	for _, conns := range w.of {
		oldest := conns[0]
		if oldest == newcomer || len(conns) < most {
			continue
		}
		if len(conns) > most || oldest.entered < victim.entered {
			most, victim = len(conns), oldest
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
