// What a program prints of its steps: regular expressions with named groups, some of them ready for well-known trainers.

package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

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

// presets are the patterns of trainers by their names in the API.
var presets = map[string]Patterns{
	// Megatron-LM: megatron/training/training.py (training_log) and checkpointing.py. What is saved in the background is saved once that has ended.
	"Megatron": {
		TrainingStep:   `\biteration\s+(?P<globalStep>\d+)/\s*(?P<totalSteps>\d+) \| consumed samples:`,
		CheckpointSave: `\bsaving checkpoint at iteration\s+\d+ to `,
		CheckpointDone: `\b(?:scheduled an async checkpoint save at iteration|successfully saved checkpoint from iteration\s+(?P<step>\d+))\s`,
	},
	// NeMo: nemo/lightning/pytorch/callbacks/progress_printer.py, and Megatron's lines of checkpoints. Its iterations begin again with each pass over the data.
	"NeMo": {
		TrainingStep:   `\bTraining epoch \d+, iteration \d+/\d+ \|.*\bglobal_step: (?P<globalStep>\d+)`,
		CheckpointDone: `(?i)\bsuccessfully saved checkpoint from iteration\s+(?P<step>\d+)\s`,
	},
	// Hugging Face's trainer: transformers/trainer_callback.py (ProgressCallback), a bar of tqdm that no word stands in front of.
	"HuggingFace": {
		TrainingStep: `^\s*\d+%\|[^|]*\| (?P<globalStep>\d+)/(?P<totalSteps>\d+) \[`,
	},
}

// longestPattern is how many bytes a pattern may have.
const longestPattern = 1024

// ParsePatterns reads a JSON object of Patterns and of preset, the name of those that stand for patterns it does not give.
func ParsePatterns(text string) (*Patterns, error) {
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
	if _, err := p.compile(); err != nil {
		return nil, err
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
		if len(one.pattern) > longestPattern {
			return m, fmt.Errorf("%s: %d bytes: want %d at most", one.name, len(one.pattern), longestPattern)
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
	if step, total := number(m.step, line, "globalStep", "iteration"), number(m.step, line, "totalSteps"); step != nil {
		p := &wire.Progress{Step: step, TotalSteps: total}
		if m.save != nil {
			p.Phase = wire.Phase_PHASE_TRAIN
		}
		return p
	}
	if m.done != nil && m.done.Match(line) {
		return &wire.Progress{Phase: wire.Phase_PHASE_TRAIN, CheckpointStep: number(m.done, line, "step")}
	}
	if m.save != nil && m.save.Match(line) {
		return &wire.Progress{Phase: wire.Phase_PHASE_CHECKPOINT}
	}
	return nil
}

// number is what the first of some groups that is there takes from a line; nil for nothing, and for what is no number of 64 bits.
func number(pattern *regexp.Regexp, line []byte, groups ...string) *int64 {
	if pattern == nil {
		return nil
	}
	found := pattern.FindSubmatch(line)
	for _, group := range groups {
		i := pattern.SubexpIndex(group)
		if found == nil || i < 0 || found[i] == nil {
			continue
		}
		if n, err := strconv.ParseInt(string(found[i]), 10, 64); err == nil && n >= 0 {
			return &n
		}
	}
	return nil
}
