//go:build linux

// Command gpuplugin invents GPUs for a kubelet, through its device plugin API, so that which pod
// holds which GPU is the kubelet's own knowledge. Programs find their GPUs' UUIDs in the environment,
// as with NVIDIA's plugin.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resourceName = "nvidia.com/gpu"
	socketName   = "lockstep-gpu.sock"
	// visibleDevices is the variable in which NVIDIA's plugin names the container's GPUs.
	visibleDevices = "NVIDIA_VISIBLE_DEVICES"
)

func main() {
	node := flag.String("node", "", "the node's name, which is part of its GPUs' UUIDs")
	gpus := flag.Int("gpus", 8, "how many GPUs the node has")
	lost := flag.String("lost", "", "a file: where it exists when the node boots, the GPUs are not there until it is gone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	err := awaitGPUs(ctx, *lost)
	if err == nil {
		err = run(ctx, *node, *gpus)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpuplugin:", err)
		os.Exit(1)
	}
}

// run serves until the kubelet's socket is another one: a kubelet that starts forgets its plugins, and
// empties the folder of their sockets. Whoever supervises this program starts it again.
func run(ctx context.Context, node string, gpus int) error {
	if node == "" {
		return errors.New("--node is needed: it names the node")
	}
	kubelet, err := awaitKubelet(ctx)
	if err != nil {
		return err
	}
	path := filepath.Join(deviceplugin.DevicePluginPath, socketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	deviceplugin.RegisterDevicePluginServer(server, &plugin{devices: devices(node, gpus)})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	if err := register(ctx); err != nil {
		return err
	}
	fmt.Printf("registered %d GPUs of %s\n", gpus, node)
	awaitNewKubelet(ctx, kubelet)
	return nil
}

// awaitGPUs waits until the file that says that the GPUs are lost is gone.
func awaitGPUs(ctx context.Context, lost string) error {
	for lost != "" && inodeOf(lost) != 0 {
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitKubelet waits for the kubelet's socket and returns its inode.
func awaitKubelet(ctx context.Context) (uint64, error) {
	for {
		if inode := inodeOf(deviceplugin.KubeletSocket); inode != 0 {
			return inode, nil
		}
		if err := pause(ctx); err != nil {
			return 0, err
		}
	}
}

// awaitNewKubelet returns when the kubelet's socket is another one, or the program is told to end.
func awaitNewKubelet(ctx context.Context, inode uint64) {
	for inodeOf(deviceplugin.KubeletSocket) == inode && pause(ctx) == nil {
		continue
	}
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(100 * time.Millisecond):
		return nil
	}
}

func inodeOf(path string) uint64 {
	var stat unix.Stat_t
	if unix.Stat(path, &stat) != nil {
		return 0
	}
	return stat.Ino
}

func register(ctx context.Context) error {
	connection, err := grpc.NewClient("unix://"+deviceplugin.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = deviceplugin.NewRegistrationClient(connection).Register(ctx, &deviceplugin.RegisterRequest{
		Version: deviceplugin.Version, Endpoint: socketName, ResourceName: resourceName,
	})
	if err != nil {
		return fmt.Errorf("registering with the kubelet: %w", err)
	}
	return nil
}

func devices(node string, count int) []*deviceplugin.Device {
	var all []*deviceplugin.Device
	for i := range count {
		all = append(all, &deviceplugin.Device{ID: fmt.Sprintf("GPU-%s-%d", node, i), Health: deviceplugin.Healthy})
	}
	return all
}

// plugin is the device plugin of one node.
type plugin struct {
	deviceplugin.UnimplementedDevicePluginServer
	devices []*deviceplugin.Device
}

// GetDevicePluginOptions asks the kubelet for nothing.
func (p *plugin) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{}, nil
}

// ListAndWatch tells the kubelet of the GPUs, which stay as they are.
func (p *plugin) ListAndWatch(_ *deviceplugin.Empty, stream grpc.ServerStreamingServer[deviceplugin.ListAndWatchResponse]) error {
	if err := stream.Send(&deviceplugin.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate tells a container which GPUs it has.
func (p *plugin) Allocate(_ context.Context, request *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	response := &deviceplugin.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &deviceplugin.ContainerAllocateResponse{
			Envs: map[string]string{visibleDevices: strings.Join(container.DevicesIds, ",")},
		})
	}
	return response, nil
}
