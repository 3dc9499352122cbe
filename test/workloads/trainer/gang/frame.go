// Package gang is a collective over TCP: ranks find rank 0, agree on one generation, and
// exchange data through it until one of them is lost, which ends the generation for all.
//
// Rank 0 is the centre of a star. It takes the ranks' contributions in the order of their
// numbers, whenever they arrive, so that a sum of floating point numbers has one order and
// its bits do not depend on timing. A ring would share the load better, and its sums have
// a fixed order as well; a star lets rank 0 tell everybody which rank was lost.
package gang

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

type kind byte

const (
	kindHello     kind = iota + 1 // worker: who I am and what I can load
	kindReject                    // root: you cannot join, and why
	kindGang                      // root: all are here; the generation and the step to resume
	kindHeartbeat                 // both: I am alive
	kindAbort                     // both: a rank is lost
	kindReady                     // exchanges
	kindReduce
	kindSaved
	kindDone
)

// maxFrame bounds what a peer can make the other side allocate.
const maxFrame = 64 << 20

const headerSize = 1 + 8 + 4

// frame is one message. Its generation is 0 before the gang is complete.
type frame struct {
	kind       kind
	generation uint64
	payload    []byte
}

func (f frame) encode() []byte {
	b := make([]byte, 0, headerSize+len(f.payload))
	b = append(b, byte(f.kind))
	b = binary.BigEndian.AppendUint64(b, f.generation)
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.payload)))
	return append(b, f.payload...)
}

func readFrame(r io.Reader) (frame, error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return frame{}, err
	}
	f := frame{kind: kind(h[0]), generation: binary.BigEndian.Uint64(h[1:])}
	n := binary.BigEndian.Uint32(h[9:])
	if f.kind < kindHello || f.kind > kindDone {
		return frame{}, fmt.Errorf("frame of unknown kind %d: is this port another program's?", f.kind)
	}
	if n > maxFrame {
		return frame{}, fmt.Errorf("frame of %d bytes is above the limit of %d", n, maxFrame)
	}
	f.payload = make([]byte, n)
	if _, err := io.ReadFull(r, f.payload); err != nil {
		return frame{}, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return f, nil
}
