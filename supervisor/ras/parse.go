// The JSON of RAS. What cannot be read is left out.

package ras

import (
	"bytes"
	"encoding/json"
	"errors"
)

// communicator is one of NCCL's. Ranks have answered RAS, and Missing have not; RAS may know neither of a rank.
type communicator struct {
	Hash    string `json:"hash"`
	Size    int    `json:"size"`
	Ranks   []rank `json:"ranks"`
	Missing []rank `json:"missing_ranks"`
}

// rank is a process as a member of a communicator. Status has numbers and truth values by name, and Counts how many operations it has launched, by their kinds.
type rank struct {
	Rank   int            `json:"rank"`
	Host   string         `json:"host"`
	PID    int            `json:"pid"`
	Status map[string]any `json:"status"`
	Counts map[string]any `json:"collective_counts"`
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
		var value any
		if key, err = d.Token(); err != nil {
			break
		}
		if key == "communicators" {
			err = parseCommunicators(d, take)
			continue
		}
		err = d.Decode(&value)
		rest[key.(string)] = value
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
	for d.More() {
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
