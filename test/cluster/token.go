// A pod's own kubeconfig: what a program may do that runs in it.

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// KubeconfigForPod writes a kubeconfig with a token of the pod's service account that is bound to
// the pod, such as a kubelet mounts into it, and returns its path. For a pod without a name the
// token is bound to none. It holds for an hour.
func (c *Cluster) KubeconfigForPod(ctx context.Context, pod *corev1.Pod) (string, error) {
	if c.authority == nil {
		return "", errNotOurs
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	request := &authenticationv1.TokenRequest{}
	if pod.Name != "" {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	if err := c.client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("asking for a token of pod %s: %w", pod.Name, err)
	}
	config, name := clientcmdapi.NewConfig(), c.options.Name
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.config.Host, CertificateAuthorityData: c.authority.pem}
	config.AuthInfos[pod.Name] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: pod.Name}
	config.CurrentContext = name
	path := filepath.Join(c.dir, pod.Namespace+"-"+pod.Name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of pod %s: %w", pod.Name, err)
	}
	return path, nil
}

// TokenKey is the key that the API server signs the tokens of service accounts with, in PEM.
func (c *Cluster) TokenKey() ([]byte, error) {
	if c.authority == nil {
		return nil, errNotOurs
	}
	return os.ReadFile(c.authority.path(serviceAccountKey))
}
