// Overrides: a user's rows over the default ones. A row overrides the one of its id, field by
// field, or is a new one; the rest of the table stays.

package health

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"
)

// rowFile is a file of rows.
type rowFile struct {
	Rows []json.RawMessage `json:"rows"`
}

// ParseOverrides lays the rows of files, such as a ConfigMap's, over a table. Where anything
// is wrong it returns everything that is, and no table: the caller keeps the one that it has.
func ParseOverrides(base *Table, files map[string][]byte) (*Table, error) {
	o := overrides{base: base, from: map[string]string{}, rows: base.Rows()}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		o.parse(name, files[name])
	}
	if len(o.errs) > 0 {
		return nil, errors.Join(o.errs...)
	}
	return newTable(o.rows, o.where)
}

type overrides struct {
	base *Table
	from map[string]string // which row of which file an id is from
	rows []*Row
	errs []error
}

func (o *overrides) parse(name string, data []byte) {
	var file rowFile
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		o.errs = append(o.errs, fmt.Errorf("%s: %w", name, err))
		return
	}
	for i, raw := range file.Rows {
		where := fmt.Sprintf("%s: row %d", name, i+1)
		row, err := o.row(raw)
		if row != nil && row.ID != "" {
			where += fmt.Sprintf(" (%s)", row.ID)
		}
		if err == nil {
			err = o.put(row, where)
		}
		if err != nil {
			o.errs = append(o.errs, fmt.Errorf("%s: %w", where, err))
		}
	}
}

// row is a base row with what an override gives. A condition or an escalation that is given
// replaces the whole of it: two conditions would contradict each other.
func (o *overrides) row(raw json.RawMessage) (*Row, error) {
	var given struct {
		ID       string          `json:"id"`
		When     json.RawMessage `json:"when"`
		Escalate json.RawMessage `json:"escalate"`
	}
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, fmt.Errorf("not a row: %w", err)
	}
	row := &Row{ID: given.ID}
	if given.ID == "" {
		return row, errors.New("id is missing")
	}
	if old, ok := o.base.Row(given.ID); ok {
		row = old.copied()
	}
	if given.When != nil {
		row.When = Condition{}
	}
	if given.Escalate != nil {
		row.Escalate = nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(row); err != nil {
		return row, err
	}
	return row, row.complete()
}

// copied shares nothing that completing a row, or decoding another one over it, would change.
func (r *Row) copied() *Row {
	c := *r
	c.Unless, c.Up = slices.Clone(r.Unless), slices.Clone(r.Up)
	return &c
}

// where is a row's place in the files, or its id where it is one of the base.
func (o *overrides) where(id string) string {
	if from, ok := o.from[id]; ok {
		return from
	}
	return "row " + id
}

func (o *overrides) put(row *Row, where string) error {
	if other, twice := o.from[row.ID]; twice {
		return fmt.Errorf("the same id as %s", other)
	}
	o.from[row.ID] = where
	i := slices.IndexFunc(o.rows, func(r *Row) bool { return r.ID == row.ID })
	if i < 0 {
		o.rows = append(o.rows, row)
		return nil
	}
	o.rows[i] = row
	return nil
}
