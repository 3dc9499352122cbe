// Stacks of a gang that hangs: on request, and in the logs after it has been restarted.

package real

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// stacks is what kubectl lockstep stacks prints.
func (s *scenario) stacks() string {
	s.t.Helper()
	out, err := ground.Plugin(s.ctx, "stacks", s.Job.Name, "-n", s.Job.Namespace)
	s.must(err)
	return out
}

// isAlone checks that one rank is where no other is, by what the plugin prints.
func (s *scenario) isAlone(shown, rank, where string) {
	s.t.Helper()
	alone := regexp.MustCompile(`(?m)^1 rank, ` + rank + `:\n((  .*)?\n)*?  .* in ` + where + `\n`)
	if !alone.MatchString(shown) || strings.Count(shown, " in "+where+"\n") != 1 {
		s.errorf("%s is not shown alone in %s", rank, where)
	}
}

// theGangHangs is what the log of a rank has before the stacks of a program that is stopped for a hang.
const theGangHangs = "The gang hangs: "

// keptStacks waits until the log of a rank has what its program did when its gang was last restarted.
func (s *scenario) keptStacks(rank int, what string) {
	s.t.Helper()
	since := s.Job.Status.EpochTime.Time
	s.must(await(s.ctx, fmt.Sprintf("the log of rank %d has %q of before the restart", rank, what), func(ctx context.Context) (bool, error) {
		log, err := s.LogSince(ctx, s.pods()[rank], since)
		_, after, found := strings.Cut(log, theGangHangs)
		return found && strings.Contains(after, what), err
	}))
}
