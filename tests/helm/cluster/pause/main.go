// What keeps a pod's namespaces: it waits until it is told to end. The registry's image of it cannot be had without a network.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGINT, syscall.SIGTERM)
	<-told
}
