package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topology "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// kinds are those that the controllers read, but for Kubernetes' own.
var kinds = []client.Object{
	&v1alpha1.TrainingJob{}, &v1alpha1.NodeHealth{}, &v1alpha1.HealthPolicy{},
	&batch.Job{}, &bus.Command{}, &scheduling.PodGroup{}, &scheduling.Queue{}, &topology.HyperNode{},
}

// askEvery is how often the API server is asked for kinds that it does not serve.
const askEvery = 2 * time.Second

// startup sets the controllers up once the API server serves their kinds: the CRDs may be installed after the manager.
// It runs on every replica, also on one that does not lead. Until it is done the manager is alive, and not ready.
type startup struct {
	mgr   ctrl.Manager
	kinds []client.Object
	setUp func(context.Context) error
	done  atomic.Bool
}

// NeedLeaderElection is part of manager.LeaderElectionRunnable.
func (*startup) NeedLeaderElection() bool { return false }

// Start is part of manager.Runnable.
func (s *startup) Start(ctx context.Context) error {
	if !s.awaitKinds(ctx) {
		return nil // the manager was stopped
	}
	if err := s.setUp(ctx); err != nil {
		return err
	}
	s.done.Store(true)
	return nil
}

// Ready is a healthz.Checker.
func (s *startup) Ready(*http.Request) error {
	if !s.done.Load() {
		return errors.New("the controllers are not set up: the manager's log says what it waits for")
	}
	return nil
}

// newCache makes a cache whose kinds the API server may not serve yet: controller-runtime asks for the scope of each.
func newCache(config *rest.Config, o cache.Options) (cache.Cache, error) {
	o.Mapper = presuming{o.Mapper}
	return cache.New(config, o)
}

// presuming takes kinds that the API server does not serve yet for namespaced, as all are that the cache has options for. Nothing reads them before startup has found them.
type presuming struct{ meta.RESTMapper }

// RESTMapping is part of meta.RESTMapper.
func (m presuming) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.RESTMapper.RESTMapping(kind, versions...)
	if meta.IsNoMatchError(err) {
		return &meta.RESTMapping{Scope: meta.RESTScopeNamespace}, nil
	}
	return mapping, err
}

// awaitKinds says what it waits for when that changes. It reports false where the context ended before.
func (s *startup) awaitKinds(ctx context.Context) bool {
	log, told := s.mgr.GetLogger().WithName("startup"), ""
	err := wait.PollUntilContextCancel(ctx, askEvery, true, func(context.Context) (bool, error) {
		lacks, err := s.lacks()
		now := fmt.Sprint(lacks, err)
		switch {
		case now == told:
		case err != nil:
			log.Error(err, "The API server does not say which kinds it serves; the manager asks again")
		case len(lacks) > 0:
			log.Info("The API server does not serve all kinds yet: install the CRDs of Lockstep and Volcano, and those of Kueue or NVSentinel where a flag names these", "missing", strings.Join(lacks, ", "))
		case told != "":
			log.Info("The API server serves all kinds now")
		}
		told = now
		return err == nil && len(lacks) == 0, nil
	})
	return err == nil
}

// lacks names the kinds that the API server does not serve.
func (s *startup) lacks() ([]string, error) {
	var missing []string
	for _, kind := range s.kinds {
		gvk, err := s.mgr.GetClient().GroupVersionKindFor(kind)
		if err != nil {
			return nil, err
		}
		_, err = s.mgr.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		switch {
		case meta.IsNoMatchError(err):
			missing = append(missing, gvk.Kind+"."+gvk.Group)
		case err != nil:
			return nil, err
		}
	}
	return missing, nil
}
