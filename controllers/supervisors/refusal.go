// Why a pod is refused.

package supervisors

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The reasons that refusals are counted by.
const (
	reasonToken       = "Token"       // none, or one that does not hold
	reasonStranger    = "Stranger"    // the pod was never one of a TrainingJob
	reasonPodGone     = "PodGone"     // the API server has no such pod
	reasonPodReplaced = "PodReplaced" // another pod has its name
	reasonJobGone     = "JobGone"     // its Volcano Job or TrainingJob is gone, or replaced
	reasonTooOften    = "TooOften"    // the pod connects more often than it may
	reasonUnavailable = "Unavailable" // the API server could not be asked
)

var reasons = []string{reasonToken, reasonStranger, reasonPodGone, reasonPodReplaced, reasonJobGone, reasonTooOften, reasonUnavailable}

// refusal is why a stream is not served.
type refusal struct {
	reason string
	// code of the error that ends the stream.
	code codes.Code
	// final refusals are told by an order, which stops the program: the API server has said that the pod is none of a gang any more.
	final bool
	why   string
}

func (r *refusal) Error() string { return r.why }

// GRPCStatus has gRPC send the code and the text.
func (r *refusal) GRPCStatus() *status.Status { return status.New(r.code, r.why) }

// gone is a refusal for good.
func gone(reason, format string, args ...any) *refusal {
	return &refusal{reason: reason, code: codes.PermissionDenied, final: true, why: fmt.Sprintf(format, args...)}
}

// badToken is the refusal of whoever cannot say which pod it is.
func badToken(format string, args ...any) *refusal {
	return &refusal{reason: reasonToken, code: codes.Unauthenticated, why: fmt.Sprintf(format, args...)}
}

// stranger is the refusal of a pod that was never one of a TrainingJob. Nothing is ordered: it is not Lockstep's.
func stranger(format string, args ...any) *refusal {
	return &refusal{reason: reasonStranger, code: codes.PermissionDenied, why: fmt.Sprintf(format, args...)}
}

// refuse counts a refusal, and returns it. Another error is one of asking the API server, which the supervisor has to outlast.
func refuse(err error) *refusal {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		r = &refusal{reason: reasonUnavailable, code: codes.Unavailable, why: err.Error()}
	}
	refusals.WithLabelValues(r.reason).Inc()
	return r
}
