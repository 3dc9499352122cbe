// Data: samples that a fixed teacher network labels, drawn from streams with a state that
// a checkpoint has to hold.

package model

import "math/rand/v2"

// Numbers of the streams that are drawn from one seed; rank r draws from streamRank+r.
const (
	streamInit = iota
	streamTeacher
	streamRank
)

// Stream is a generator of random numbers whose state can be saved.
type Stream struct{ pcg *rand.PCG }

// NewStream starts stream number n of a seed.
func NewStream(seed, n uint64) *Stream { return &Stream{rand.NewPCG(seed, n)} }

// RankStream starts the stream that a rank draws its samples from.
func RankStream(seed uint64, rank int) *Stream { return NewStream(seed, streamRank+uint64(rank)) }

// Signed is uniform in [-1, 1): 53 random bits, scaled exactly.
func (s *Stream) Signed() float64 { return float64(s.pcg.Uint64()>>11)/(1<<52) - 1 }

// Marshal returns the state of the stream.
func (s *Stream) Marshal() []byte {
	b, err := s.pcg.MarshalBinary()
	if err != nil {
		panic(err) // rand.PCG never fails to
	}
	return b
}

// Unmarshal sets the state of the stream.
func (s *Stream) Unmarshal(b []byte) error { return s.pcg.UnmarshalBinary(b) }

// Sample is one input and what the teacher answers.
type Sample struct {
	X []float64
	Y float64
}

// Teacher labels samples.
type Teacher struct {
	shape  Shape
	params []float64
}

// NewTeacher draws the network that is to be learned.
func NewTeacher(s Shape, seed uint64) Teacher {
	r := NewStream(seed, streamTeacher)
	p := make([]float64, s.Size())
	for i := range p {
		p[i] = r.Signed()
	}
	return Teacher{s, p}
}

// Batch draws the next n samples of a stream.
func (t Teacher) Batch(r *Stream, n int) []Sample {
	hidden := make([]float64, t.shape.Hidden)
	out := make([]Sample, n)
	for i := range out {
		x := make([]float64, t.shape.In)
		for j := range x {
			x[j] = r.Signed()
		}
		out[i] = Sample{X: x, Y: t.shape.forward(t.params, x, hidden)}
	}
	return out
}
