// Package model is a small network and its optimizer, computed so that the same seeds
// give the same bits in every run: plain loops, no maps, no goroutines, and only the
// operations that IEEE 754 defines exactly (+, -, *, /). A product that goes into a sum
// is converted explicitly, which forbids the compiler to fuse the two into one rounding
// on the platforms that could.
package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
)

// Shape is the size of a network with one hidden layer and one output.
type Shape struct {
	In, Hidden int
}

// Size is the number of parameters: the hidden layer's weights and biases, the output's weights and its bias.
func (s Shape) Size() int { return s.Hidden*s.In + s.Hidden + s.Hidden + 1 }

// Init draws the parameters that training starts from.
func (s Shape) Init(seed uint64) []float64 {
	r := NewStream(seed, streamInit)
	p := make([]float64, s.Size())
	scale := 1 / float64(s.In)
	for i := range p {
		p[i] = float64(r.Signed() * scale)
	}
	return p
}

// forward computes the hidden layer and the output for one sample.
func (s Shape) forward(p, x, hidden []float64) float64 {
	bias := s.Hidden * s.In
	out := p[s.Size()-1]
	for h := range hidden {
		sum := p[bias+h]
		for i, v := range x {
			sum += float64(p[h*s.In+i] * v)
		}
		hidden[h] = max(sum, 0)
		out += float64(p[bias+s.Hidden+h] * hidden[h])
	}
	return out
}

// Gradient adds the gradient of the squared error over a batch to grad, and returns the
// sum of the errors. Neither is divided by the number of samples: sums of several ranks add up.
func (s Shape) Gradient(p, grad []float64, batch []Sample) float64 {
	hidden := make([]float64, s.Hidden)
	bias := s.Hidden * s.In
	loss := 0.0
	for _, b := range batch {
		d := s.forward(p, b.X, hidden) - b.Y
		loss += float64(d * d)
		grad[s.Size()-1] += 2 * d
		for h, a := range hidden {
			grad[bias+s.Hidden+h] += float64(2 * d * a)
			if a == 0 {
				continue
			}
			dh := float64(2 * d * p[bias+s.Hidden+h])
			grad[bias+h] += dh
			for i, v := range b.X {
				grad[h*s.In+i] += float64(dh * v)
			}
		}
	}
	return loss
}

// State is everything that every rank has a copy of: a step is a function of it and of
// the samples alone.
type State struct {
	Step     int
	Params   []float64
	Velocity []float64 // the optimizer's momentum
	Loss     float64   // of the step
}

// Optimizer is gradient descent with momentum, at a rate that falls with the steps.
type Optimizer struct {
	Rate, Momentum, Decay float64
}

// Apply makes one step of a gradient that is the sum over samples.
func (o Optimizer) Apply(s *State, grad []float64, samples int) {
	rate := o.Rate / (1 + float64(o.Decay*float64(s.Step)))
	for i, g := range grad {
		s.Velocity[i] = float64(o.Momentum*s.Velocity[i]) + g/float64(samples)
		s.Params[i] -= float64(rate * s.Velocity[i])
	}
	s.Step++
}

// Digest is a checksum of the state's exact bits.
func (s *State) Digest() string {
	h := sha256.New()
	b := binary.LittleEndian.AppendUint64(nil, uint64(s.Step))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(s.Loss))
	for _, v := range [][]float64{s.Params, s.Velocity} {
		for _, f := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
		}
	}
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil)[:16])
}
