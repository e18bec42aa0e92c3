// A small MCP server over stdio: it says where it is, and tries to reach what it may not.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
)

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ProtocolVersion string            `json:"protocolVersion"`
		Name            string            `json:"name"`
		Arguments       map[string]string `json:"arguments"`
	} `json:"params"`
}

type object = map[string]any

func tool(name, argument string) object {
	text := object{"type": "string"}
	return object{"name": name, "inputSchema": object{"type": "object", "properties": object{argument: text}}}
}

func call(name string, arguments map[string]string) (string, error) {
	switch name {
	case "read":
		data, err := os.ReadFile(arguments["path"])
		return string(data), err
	case "dial":
		connection, err := net.Dial("tcp", arguments["address"])
		if err != nil {
			return "", err
		}
		return "connected", connection.Close()
	}
	return "", fmt.Errorf("no tool %q", name)
}

func answer(asked message) any {
	switch asked.Method {
	case "initialize":
		return object{
			"protocolVersion": asked.Params.ProtocolVersion,
			"capabilities":    object{"tools": object{}},
			"serverInfo":      object{"name": "notes in Go", "version": "1"},
		}
	case "tools/list":
		return object{"tools": []object{tool("read", "path"), tool("dial", "address")}}
	case "tools/call":
		text, err := call(asked.Params.Name, asked.Params.Arguments)
		if err != nil {
			text = err.Error()
		}
		return object{"content": []object{{"type": "text", "text": text}}, "isError": err != nil}
	}
	return object{}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked message
		if json.Unmarshal(lines.Bytes(), &asked) == nil && asked.ID != nil {
			out.Encode(object{"jsonrpc": "2.0", "id": asked.ID, "result": answer(asked)})
		}
	}
}
