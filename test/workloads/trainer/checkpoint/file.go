// Package checkpoint keeps a rank's state in files that are whole or not there, and
// chooses among those that several lives of the rank have written.
package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/test/workloads/trainer/model"
)

// Checkpoint is what one rank needs to go on: the state that all ranks share, and the
// state of the stream that only it draws its samples from.
type Checkpoint struct {
	model.State
	Stream []byte
}

// header describes the file. Every field is checked against the file's name and the run.
type header struct {
	Fingerprint string `json:"fingerprint"`
	Rank        int    `json:"rank"`
	Incarnation int    `json:"incarnation"`
	Step        int    `json:"step"`
	Params      int    `json:"params"`
	Stream      int    `json:"stream"`
}

const magic = "lockstep-trainer-1\n"

var (
	errCorrupt = errors.New("corrupt")
	errForeign = errors.New("of a run with other flags")
)

func (h header) encode(c *Checkpoint) ([]byte, error) {
	h.Step, h.Params, h.Stream = c.Step, len(c.Params), len(c.Stream)
	head, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	b := []byte(magic)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(head)))
	b = append(b, head...)
	b = append(b, c.Stream...)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c.Loss))
	for _, v := range [][]float64{c.Params, c.Velocity} {
		for _, f := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
		}
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// decode reads a file's bytes. The checksum comes first: nothing of a torn file is used.
func decode(b []byte) (header, *Checkpoint, error) {
	var h header
	body := len(b) - sha256.Size
	if body < len(magic)+4 || !bytes.HasPrefix(b, []byte(magic)) {
		return h, nil, fmt.Errorf("%w: %d bytes that do not begin as a checkpoint does", errCorrupt, len(b))
	}
	if sum := sha256.Sum256(b[:body]); !bytes.Equal(sum[:], b[body:]) {
		return h, nil, fmt.Errorf("%w: the checksum does not fit", errCorrupt)
	}
	rest := b[len(magic):body]
	n := int(binary.LittleEndian.Uint32(rest))
	if n > len(rest)-4 {
		return h, nil, fmt.Errorf("%w: a header of %d bytes", errCorrupt, n)
	}
	if err := json.Unmarshal(rest[4:4+n], &h); err != nil {
		return h, nil, fmt.Errorf("%w: header: %w", errCorrupt, err)
	}
	rest = rest[4+n:]
	if h.Params < 0 || h.Stream < 0 || len(rest) != h.Stream+8+16*h.Params {
		return h, nil, fmt.Errorf("%w: %d bytes of state", errCorrupt, len(rest))
	}
	c := &Checkpoint{Stream: rest[:h.Stream:h.Stream]}
	c.Step = h.Step
	numbers := floats(rest[h.Stream:])
	c.Loss, c.Params, c.Velocity = numbers[0], numbers[1:1+h.Params:1+h.Params], numbers[1+h.Params:]
	return h, c, nil
}

func floats(b []byte) []float64 {
	out := make([]float64, len(b)/8)
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return out
}

// write puts a file in place atomically. allowed is asked between the moment at which the
// content is durable and the rename that publishes it.
func write(path string, content []byte, allowed func() error) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(dir, tempPrefix+filepath.Base(path))
	f, err := os.Create(tmp)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(tmp)
		}
	}()
	_, err = io.Copy(f, bytes.NewReader(content))
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = allowed()
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// WriteFile puts a file in place atomically and durably.
func WriteFile(path string, content []byte) error { return write(path, content, always) }

func always() error { return nil }
