// One program with everything that a node needs: kubelet and kube-proxy, and the kube-scheduler that assigns pods to the node.
//
// It belongs to the module of ../main.go, so that all of them have the same version. The first argument names the command.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"kubelet":        func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
		"kube-proxy":     proxy.NewProxyCommand,
		"kube-scheduler": func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "expected kubelet, kube-proxy or kube-scheduler as the first argument")
		os.Exit(2)
	}
	command := commands[os.Args[1]]
	os.Args = os.Args[1:]
	os.Exit(cli.Run(command()))
}
