// Which pods hold which devices: asked of the kubelet, which alone knows.

package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// maxResources is the largest answer of the kubelet that is taken, in bytes.
const maxResources = 16 << 20

// kubeletTimeout is how long the kubelet may take to answer. The agent polls nothing meanwhile.
const kubeletTimeout = 5 * time.Second

// Kubelet asks the kubelet of the node, through its PodResources API.
type Kubelet struct {
	conn *grpc.ClientConn
}

// DialKubelet returns a client of the kubelet's socket, which need not be there yet: an
// address such as unix:///var/lib/kubelet/pod-resources/kubelet.sock.
func DialKubelet(address string) (*Kubelet, error) {
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a socket of this node
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResources)))
	if err != nil {
		return nil, fmt.Errorf("kubelet at %s: %w", address, err)
	}
	return &Kubelet{conn: conn}, nil
}

// Close ends the connection.
func (k *Kubelet) Close() error { return k.conn.Close() }

// Holders are the pods that hold each device, as namespace/name, sorted, by the device's
// id: a GPU's UUID, or that of a MIG device.
func (k *Kubelet) Holders(ctx context.Context) (map[string][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletTimeout)
	defer cancel()
	answer, err := podresources.NewPodResourcesListerClient(k.conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet which pods hold which devices: %w", err)
	}
	holders := map[string][]string{}
	for _, pod := range answer.GetPodResources() {
		name := pod.GetNamespace() + "/" + pod.GetName()
		for _, container := range pod.GetContainers() {
			for _, devices := range container.GetDevices() {
				for _, id := range devices.GetDeviceIds() {
					if !slices.Contains(holders[id], name) {
						holders[id] = append(holders[id], name)
					}
				}
			}
		}
	}
	for _, pods := range holders {
		slices.Sort(pods)
	}
	return holders, nil
}
