package lockstep
import (
 _ "sigs.k8s.io/controller-runtime"
 _ "sigs.k8s.io/e2e-framework/pkg/env"
 _ "volcano.sh/apis/pkg/apis/batch/v1alpha1"
 _ "volcano.sh/apis/pkg/apis/topology/v1alpha1"
 _ "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
 _ "github.com/google/go-cmp/cmp"
 _ "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
 _ "github.com/prometheus/client_golang/prometheus"
 _ "sigs.k8s.io/yaml"
 _ "k8s.io/utils/ptr"
 _ "github.com/go-logr/logr"
)
