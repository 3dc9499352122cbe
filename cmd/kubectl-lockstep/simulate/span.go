package simulate

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/lab"
)

// timeType is what the help shows of the value of a span.
const timeType = "time"

// span is a flag for a time, which may be given in days.
type span time.Duration

func (s *span) Set(text string) error {
	d, err := lab.ParseTime(text)
	*s = span(d)
	return err
}

// String is what the help shows: whole days as such.
func (s *span) String() string { return formatSpan(time.Duration(*s)) }

func (s *span) Type() string { return timeType }

func formatSpan(d time.Duration) string {
	const day = 24 * time.Hour
	if d > 0 && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return lines.Exactly(d)
}

func spanVar(f *pflag.FlagSet, to *time.Duration, name string, preset time.Duration, usage string) {
	*to = preset
	f.Var((*span)(to), name, usage)
}
