// What a program prints of its steps: regular expressions with named groups, some of them ready for well-known trainers.

package steps

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// Patterns are the regular expressions, in RE2's syntax, of lines that say how far a program is. Their groups have the names of the LogProfile of NVIDIA's
// Cluster Readiness Engine, and totalSteps beside.
type Patterns struct {
	// TrainingStep has the group globalStep or iteration, and totalSteps where the line has that.
	TrainingStep string `json:"trainingStep,omitempty"`
	// CheckpointSave begins a checkpoint: no steps are expected until CheckpointDone, or the next step of the same rank.
	CheckpointSave string `json:"checkpointSave,omitempty"`
	// CheckpointDone ends it, and has the group step where it names the step that is saved.
	CheckpointDone string `json:"checkpointDone,omitempty"`
}

// savedByMegatron is the line of a checkpoint that is there. Older versions and forks say at in place of from, and local checkpoints are named so.
const savedByMegatron = `successfully saved (?:local )?checkpoint (?:from|at) iteration\s+(?P<step>\d+)(?:\s|$)`

// presets are the patterns of trainers by their names in the API.
var presets = map[string]Patterns{
	// Megatron-LM: megatron/training/training.py (training_log) and checkpointing.py. What is saved in the background is saved once that has ended.
	"Megatron": {
		TrainingStep:   `iteration\s+(?P<globalStep>\d+)/\s*(?P<totalSteps>\d+) \| consumed samples:`,
		CheckpointSave: `saving checkpoint at iteration\s+\d+ to `,
		CheckpointDone: `scheduled an async checkpoint save at iteration|` + savedByMegatron,
	},
	// NeMo: nemo/lightning/pytorch/callbacks/progress_printer.py, and Megatron's lines of checkpoints. Its iterations begin again with each pass over the data.
	"NeMo": {
		TrainingStep:   `Training epoch \d+, iteration \d+/\d+ \|.*\bglobal_step: (?P<globalStep>\d+)`,
		CheckpointDone: `(?i)` + savedByMegatron,
	},
	// Hugging Face's trainer: transformers/trainer_callback.py (ProgressCallback), a bar of tqdm that no word stands in front of.
	"HuggingFace": {
		TrainingStep: `^\s*\d+%\|[^|]*\| (?P<globalStep>\d+)/(?P<totalSteps>\d+) \[`,
	},
}

// longestPattern is how many characters a pattern may have.
const longestPattern = 1024

// repetition is a counted one. It makes a short pattern as slow as a very long one.
var repetition = regexp.MustCompile(`\{[0-9]+,?[0-9]*\}`)

func parsePatterns(text string) (*Patterns, error) {
	var said struct {
		Preset string `json:"preset"`
		Patterns
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		return nil, err
	}
	p, known := presets[said.Preset]
	if said.Preset != "" && !known {
		return nil, fmt.Errorf("preset %q: want HuggingFace, Megatron or NeMo", said.Preset)
	}
	for _, one := range []struct{ given, pattern *string }{
		{&said.TrainingStep, &p.TrainingStep}, {&said.CheckpointSave, &p.CheckpointSave}, {&said.CheckpointDone, &p.CheckpointDone},
	} {
		if *one.given != "" {
			*one.pattern = *one.given
		}
	}
	return &p, nil
}

// matcher finds in lines what they say.
type matcher struct{ step, save, done *regexp.Regexp }

// compile returns the matcher of patterns.
func (p *Patterns) compile() (m matcher, err error) {
	for _, one := range []struct {
		name, pattern string
		to            **regexp.Regexp
		groups        []string // one of which it needs
	}{
		{"trainingStep", p.TrainingStep, &m.step, []string{"globalStep", "iteration"}},
		{"checkpointSave", p.CheckpointSave, &m.save, nil},
		{"checkpointDone", p.CheckpointDone, &m.done, nil},
	} {
		if one.pattern == "" {
			continue
		}
		if n := utf8.RuneCountInString(one.pattern); n > longestPattern {
			return m, fmt.Errorf("%s: %d characters: want %d at most", one.name, n, longestPattern)
		}
		if found := repetition.FindString(one.pattern); found != "" {
			return m, fmt.Errorf("%s: repetition by %s is too slow: use * or +", one.name, found)
		}
		if *one.to, err = regexp.Compile(one.pattern); err != nil {
			return m, fmt.Errorf("%s: %w", one.name, err)
		}
		if one.groups != nil && !slices.ContainsFunc((*one.to).SubexpNames(), func(name string) bool { return slices.Contains(one.groups, name) }) {
			return m, fmt.Errorf("%s: no group (?P<globalStep>\\d+) takes the number of the step", one.name)
		}
	}
	if m == (matcher{}) {
		return m, errors.New("neither a preset nor a pattern")
	}
	return m, nil
}

// find returns what a line says; nil for nothing.
func (m *matcher) find(line []byte) *wire.Progress {
	if found := groups(m.step, line); found != nil {
		if step := cmp.Or(found.number("globalStep"), found.number("iteration")); step != nil {
			p := &wire.Progress{Step: step, TotalSteps: found.number("totalSteps")}
			if m.save != nil {
				p.Phase = wire.Phase_PHASE_TRAIN
			}
			return p
		}
	}
	if found := groups(m.done, line); found != nil {
		return &wire.Progress{Phase: wire.Phase_PHASE_TRAIN, CheckpointStep: found.number("step")}
	}
	if m.save != nil && m.save.Match(line) {
		return &wire.Progress{Phase: wire.Phase_PHASE_CHECKPOINT}
	}
	return nil
}

// match is what the groups of a pattern take from a line.
type match struct {
	pattern *regexp.Regexp
	groups  [][]byte
}

// groups returns nil where the pattern is not found.
func groups(pattern *regexp.Regexp, line []byte) *match {
	if pattern == nil {
		return nil
	}
	if found := pattern.FindSubmatch(line); found != nil {
		return &match{pattern, found}
	}
	return nil
}

// number is what a group takes; nil for nothing, and for what is no number of 64 bits.
func (m *match) number(group string) *int64 {
	i := m.pattern.SubexpIndex(group)
	if i < 0 {
		return nil
	}
	if n, err := strconv.ParseInt(string(m.groups[i]), 10, 64); err == nil && n >= 0 {
		return &n
	}
	return nil
}
