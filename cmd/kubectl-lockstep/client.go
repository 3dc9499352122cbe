package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// newReader makes a client for the kinds of Kubernetes, Volcano and Lockstep that verbs read, and returns the namespace that
// the flags ask for.
func newReader(flags *genericclioptions.ConfigFlags) (client.Reader, string, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, scheduling.AddToScheme, topologyv1alpha1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, "", err
		}
	}
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, "", err
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, "", err
	}
	config.QPS = -1 // a verb asks a few questions, and ends
	reader, err := client.New(config, client.Options{Scheme: scheme})
	return reader, namespace, err
}
