package writes

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestWhatIsOnlyAConflict(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("nodes"), "n1", errors.New("changed"))
	other := errors.New("down")
	tests := map[string]struct {
		err  error
		want bool
	}{
		"a conflict":                {conflict, true},
		"told with its place":       {fmt.Errorf("act: %w", conflict), true},
		"several":                   {fmt.Errorf("act: %w", errors.Join(conflict, fmt.Errorf("hold: %w", errors.Join(conflict, conflict)))), true},
		"another error":             {other, false},
		"another one beside":        {fmt.Errorf("act: %w", errors.Join(conflict, other)), false},
		"another one further below": {errors.Join(conflict, fmt.Errorf("hold: %w", errors.Join(other, conflict))), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { check.Equal(t, "is only a conflict", tc.want, IsConflict(tc.err)) })
	}
}

// What does not apply is a conflict, and what would not be valid is an error.
func TestWhyAPatchIsRefused(t *testing.T) {
	webhook := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Message: "admission webhook denied the request"}}
	check.Equal(t, "does not apply", true, doesNotApply(notApplied))
	check.Equal(t, "is not valid", false, doesNotApply(apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), "n1", nil)))
	check.Equal(t, "cannot be decoded", false, doesNotApply(apierrors.NewInvalid(schema.GroupKind{}, "", nil)))
	check.Equal(t, "a webhook denies it", false, doesNotApply(webhook))
	check.Equal(t, "none", false, doesNotApply(nil))
}
