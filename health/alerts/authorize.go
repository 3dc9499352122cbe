// Who may send alerts: whoever the API server knows by its bearer token, and lets post here.

package alerts

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Authorizer asks the API server about bearer tokens. controller-runtime's filter for metrics
// would do, but it answers a wrong token with 500, which Alertmanager takes for a fault that
// passes.
type Authorizer struct {
	Client client.Client
}

// refusal is an answer that is not a success.
type refusal struct {
	code   int
	reason string
}

func (r *refusal) Error() string { return r.reason }

func refuse(code int, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// authorize returns nil for a request that may be served.
func (a *Authorizer) authorize(ctx context.Context, r *http.Request) *refusal {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "bearer") || token == "" {
		return refuse(http.StatusUnauthorized, "no bearer token: set http_config.authorization.credentials_file of the webhook")
	}
	review := &authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}}
	if err := a.Client.Create(ctx, review); err != nil {
		return refuse(http.StatusServiceUnavailable, "the API server could not be asked about the token: %v", err)
	}
	if !review.Status.Authenticated {
		return refuse(http.StatusUnauthorized, "the API server does not know the bearer token, or it has expired")
	}
	return a.mayPost(ctx, review.Status.User, r.URL.Path)
}

func (a *Authorizer) mayPost(ctx context.Context, user authentication.UserInfo, path string) *refusal {
	extra := map[string]authorization.ExtraValue{}
	for k, v := range user.Extra {
		extra[k] = authorization.ExtraValue(v)
	}
	review := &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorization.NonResourceAttributes{Path: path, Verb: "post"},
	}}
	if err := a.Client.Create(ctx, review); err != nil {
		return refuse(http.StatusServiceUnavailable, "the API server could not be asked what %s may do: %v", user.Username, err)
	}
	if !review.Status.Allowed {
		return refuse(http.StatusForbidden, "%s may not post to %s: bind the ClusterRole lockstep-alert-sender to it", user.Username, path)
	}
	return nil
}
