// The JSON of RAS. What cannot be read is left out.

package ras

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// communicator is one of NCCL's. Ranks have answered RAS, and Missing have not; RAS may know neither of a rank.
type communicator struct {
	Hash    string `json:"hash"`
	Size    int    `json:"size"`
	Ranks   list   `json:"ranks"`
	Missing list   `json:"missing_ranks"`
}

// most is how many ranks of a communicator, communicators, and figures of a rank are read. Entries of a hostile answer may be three bytes long, and take a hundred times as much memory.
const (
	most        = 1 << 15
	mostFigures = 24
)

// list are ranks, the first ones of which there are too many.
type list []rank

// UnmarshalJSON reads one rank after the other.
func (l *list) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return err
	}
	for d.More() && len(*l) < most {
		var r rank
		err := d.Decode(&r)
		if _, other := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !other {
			return err
		}
		*l = append(*l, r)
	}
	return nil
}

// figures are numbers and truth values by their names, the first ones of which there are too many.
type figures map[string]any

// UnmarshalJSON reads one figure after the other.
func (f *figures) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return err
	}
	*f = figures{}
	for d.More() && len(*f) < mostFigures {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		(*f)[name.(string)] = plain(raw)
	}
	return nil
}

// plain is a short number, truth value or text; nil for anything else.
func plain(raw json.RawMessage) (value any) {
	const longest = 256
	if len(raw) > longest || bytes.ContainsAny(raw[:1], "[{") {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&value)
	return value
}

// rank is a process as a member of a communicator. Status has numbers and truth values by name, and Counts how many operations it has launched, by their kinds.
type rank struct {
	Rank   int     `json:"rank"`
	Host   string  `json:"host"`
	PID    int     `json:"pid"`
	Status figures `json:"status"`
	Counts figures `json:"collective_counts"`
}

// parse gives each communicator of an answer to take, and returns the rest of the answer. The error says why the answer is not read to its end; what
// comes before that is read all the same.
func parse(answer []byte, take func(communicator)) (rest map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(withCommas(answer)))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("it is no JSON object")
	}
	rest = map[string]any{}
	for err == nil && d.More() {
		var key json.Token
		var value json.RawMessage
		if key, err = d.Token(); err != nil {
			break
		}
		if key == "communicators" {
			err = parseCommunicators(d, take)
			continue
		}
		if err = d.Decode(&value); err == nil && len(rest) < mostFigures {
			rest[key.(string)] = plain(value)
		}
	}
	if err == nil {
		_, err = d.Token()
	}
	return rest, err
}

func parseCommunicators(d *json.Decoder, take func(communicator)) error {
	start, err := d.Token()
	if err != nil || start == nil { // null
		return err
	}
	if start != json.Delim('[') {
		return errors.New("its communicators are no list")
	}
	for n := 0; d.More(); n++ {
		if n == most {
			return fmt.Errorf("it has more than %d communicators", most)
		}
		var c communicator
		err := d.Decode(&c)
		if _, other := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !other { // what is of another type is left out
			return err
		}
		take(c)
	}
	_, err = d.Token()
	return err
}

// withCommas adds commas between values: NCCL 2.28.7 to 2.28.9 forget one in each of missing_ranks.
func withCommas(in []byte) []byte {
	out := make([]byte, 0, len(in)+len(in)/64)
	last, quoted := byte(','), false // last is the last byte that is no space and within no string
	for i := 0; i < len(in); i++ {
		b := in[i]
		switch {
		case quoted && b == '\\' && i+1 < len(in):
			out = append(out, b)
			i++
			b = in[i]
		case quoted:
			quoted = b != '"'
		case b == ' ' || b == '\n' || b == '\t' || b == '\r':
		default:
			quoted = b == '"'
			if (quoted || b == '{' || b == '[') && bytes.IndexByte([]byte(",:{["), last) < 0 {
				out = append(out, ',')
			}
			last = b
		}
		out = append(out, b)
	}
	return out
}
