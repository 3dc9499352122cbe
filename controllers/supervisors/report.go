// Reports, as the reconciler gets them.

package supervisors

import (
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// maxMessage is how much of a termination message is kept, in bytes: as much as the kubelet keeps.
const maxMessage = 4096

// Report is what a pod's supervisor has last said of its program.
type Report struct {
	Epoch int64
	State wire.State
	// Exit of the program in the epoch; nil where wire.Report has none.
	Exit *Exit
	// Connected reports whether the stream is up. The rest may be outdated where it is not.
	Connected bool
}

// Exit is how a program ended. The times are those of the node's clock.
type Exit struct {
	Code, Signal   int32
	Started, Ended time.Time
	Message        string
}

// reportOf reads a message.
func reportOf(m *wire.Report) (Report, error) {
	if m.GetEpoch() < 0 {
		return Report{}, status.Errorf(codes.InvalidArgument, "epoch %d: an epoch is 0 or more", m.GetEpoch())
	}
	if _, known := wire.State_name[int32(m.GetState())]; !known || m.GetState() == wire.State_STATE_UNSPECIFIED {
		return Report{}, status.Errorf(codes.InvalidArgument, "state %v: this manager does not know it; use a supervisor of the manager's version", m.GetState())
	}
	report := Report{Epoch: m.GetEpoch(), State: m.GetState()}
	if exit := m.GetExit(); exit != nil {
		report.Exit = &Exit{
			Code: exit.GetCode(), Signal: exit.GetSignal(), Message: tail(exit.GetMessage()),
			Started: time.UnixMicro(exit.GetStartedMicros()).UTC(), Ended: time.UnixMicro(exit.GetEndedMicros()).UTC(),
		}
	}
	return report, nil
}

// tail is the end of a message, which says most.
func tail(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[len(message)-maxMessage:], "")
}

func (r Report) equal(other Report) bool {
	if (r.Exit == nil) != (other.Exit == nil) || r.Exit != nil && *r.Exit != *other.Exit {
		return false
	}
	return r.Epoch == other.Epoch && r.State == other.State
}
