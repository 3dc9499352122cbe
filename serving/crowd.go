// Crowds: which connection gives way when there are too many.

package serving

import "container/list"

// crowd is a bounded number of connections. The listener's lock guards it.
type crowd struct {
	most  int
	of    map[string]*list.List // of *Conn by the client's address, the oldest first
	count int
	// newestLeaves has the newest connection give way, and not the oldest.
	newestLeaves bool
}

func newCrowd(most int) crowd { return crowd{most: most, of: map[string]*list.List{}} }

// add counts a connection, and returns the one that has to give way, if any.
func (w *crowd) add(c *Conn) *Conn {
	conns := w.of[c.source]
	if conns == nil {
		conns = list.New()
		w.of[c.source] = conns
	}
	c.place = conns.PushBack(c)
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
		next := conns.Front().Value.(*Conn)
		if w.newestLeaves {
			next = conns.Back().Value.(*Conn)
		} else if next == newcomer {
			continue
		}
		if conns.Len() > most || conns.Len() == most && (next.entered > victim.entered) == w.newestLeaves {
			most, victim = conns.Len(), next
		}
	}
	return victim
}

// remove has a connection counted no longer.
func (w *crowd) remove(c *Conn) {
	conns := w.of[c.source]
	conns.Remove(c.place)
	if conns.Len() == 0 {
		delete(w.of, c.source)
	}
	w.count--
}

// all are the connections.
func (w *crowd) all() (out []*Conn) {
	for _, conns := range w.of {
		for e := conns.Front(); e != nil; e = e.Next() {
			out = append(out, e.Value.(*Conn))
		}
	}
	return out
}
