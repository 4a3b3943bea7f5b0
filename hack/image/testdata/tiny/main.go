// Command tiny is quick to build for any platform.
package main

func main() {}
