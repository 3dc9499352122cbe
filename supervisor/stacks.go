// Where the program is: on request, and in the log before it is stopped because its gang hangs.

package supervisor

import (
	"context"
	"io"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/supervisor/ras"
	"github.com/lockstep-dev/lockstep/supervisor/stacks"
)

// keptStacks is how much of the stacks the log gets, in bytes.
const keptStacks = 256 << 10

// serveStacks has Python programs say where they are, and answers who asks. Without either the program runs all the same.
func (s *supervisor) serveStacks(ctx context.Context, folder string) {
	if s.PythonStacks {
		python, err := filepath.Abs(filepath.Join(folder, stacks.Folder))
		if err == nil {
			err = stacks.Install(python)
		}
		if err != nil {
			s.Log.Warn("Python programs do not say where they are", "error", err)
		} else {
			s.Environ = stacks.Environ(s.Environ, python)
		}
	}
	if err := stacks.Serve(ctx, folder, s.stacks); err != nil {
		s.Log.Warn("Nobody can ask where the program is", "error", err)
	}
}

func (s *supervisor) stacks(force bool) string { return stacks.Of(s.keeper.Statuses, force) }

// keepStacks has the log say where the program is. It is about to be stopped, so nothing is lost with one that ends by that. NCCL, which ends with it,
// comes first, in the first ranks of each task: one answers for all. Its report is that of the last poll, if there is one: a later report may miss ranks that are stopped
// already. Without such a poll, RAS is asked only with asksRAS.
func (s *supervisor) keepStacks(standstill string, asksRAS bool) {
	if ras.Chosen(s.Environ) && (standstill != "" || asksRAS) {
		var err error
		if standstill == "" {
			standstill, err = ras.Ask(s.Environ)
		}
		if err != nil {
			s.Log.Info("NCCL RAS does not say where the gang hangs", "error", err)
		} else {
			s.Log.Warn("The gang hangs: this is what NCCL RAS says of all ranks")
			_, _ = io.WriteString(s.Output, standstill)
		}
	}
	text := s.stacks(true)
	s.Log.Warn("The gang hangs: this is what the program did before it is stopped")
	_, _ = io.WriteString(s.Output, text[:min(len(text), keptStacks)])
}
