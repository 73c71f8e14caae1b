// Compiles the contracts with the npm compiler and writes what the package ships: one JSON file a contract.
// The bytes depend on the sources and the compiler alone.
//
// "runtime" is what a deployed contract is recognised by: the size of its code without the metadata that ends it (which
// other settings of the same compiler write differently), the places of its immutables as [offset, length], and the
// keccak-256 of those bytes of code with the immutables zero.
//
//     node scripts/compile.js            write node/hydra_node/chain/artifacts
//     node scripts/compile.js --out DIR  write DIR instead

"use strict";

const fs = require("node:fs");
const { createRequire } = require("node:module");
const path = require("node:path");
const solc = require("solc");
const { keccak256 } = createRequire(require.resolve("solc"))("js-sha3"); // the compiler brings it

const ROOT = path.resolve(__dirname, "..");
const SHIPPED = [
  "HydraToken",
  "StakeManager",
  "JobEscrow",
  "SubmissionRegistry",
  "RewardsDistributor",
  "QualityRounds",
  "TrainingRegistry",
  "DisputeManager",
  "ViewArbiter",
];
const MAX_RUNTIME_BYTES = 24576; // EIP-170
const RUNTIME_OUTPUT = ["evm.deployedBytecode.object", "evm.deployedBytecode.immutableReferences"];

function readSource(name) {
  const base = name.startsWith("@") ? path.join(ROOT, "node_modules") : ROOT;
  try {
    return { contents: fs.readFileSync(path.join(base, name), "utf8") };
  } catch (error) {
    return { error: error.message };
  }
}

function compile() {
  const sources = {};
  for (const name of SHIPPED) {
    const file = `contracts/${name}.sol`;
    sources[file] = { content: readSource(file).contents };
  }
  const input = {
    language: "Solidity",
    sources,
    settings: {
      evmVersion: "paris",
      optimizer: { enabled: true, runs: 200 },
      metadata: { bytecodeHash: "none" },
      outputSelection: {
        "*": { "*": ["abi", "evm.bytecode.object", ...RUNTIME_OUTPUT] },
      },
    },
  };
  const output = JSON.parse(solc.compile(JSON.stringify(input), { import: readSource }));
  const problems = output.errors ?? [];
  for (const problem of problems) process.stderr.write(problem.formattedMessage);
  if (problems.length > 0) throw new Error("the contracts do not compile without errors and warnings");
  return output.contracts;
}

function describeRuntime({ object, immutableReferences }) {
  const whole = Buffer.from(object, "hex");
  const code = whole.subarray(0, whole.length - 2 - whole.readUInt16BE(whole.length - 2));
  const immutables = Object.values(immutableReferences)
    .flat()
    .map(({ start, length }) => [start, length])
    .sort(([left], [right]) => left - right);
  for (const [start, length] of immutables) code.fill(0, start, start + length);
  return { size: code.length, immutables, hash: `0x${keccak256(code)}` };
}

function sortKeys(value) {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sortKeys(value[key])]));
}

function main() {
  const flag = process.argv.indexOf("--out");
  const out = flag > 0 ? process.argv[flag + 1] : path.join(ROOT, "node/hydra_node/chain/artifacts");
  const compiled = compile();
  fs.mkdirSync(out, { recursive: true });
  for (const name of SHIPPED) {
    const contract = compiled[`contracts/${name}.sol`][name];
    const size = contract.evm.deployedBytecode.object.length / 2;
    if (size > MAX_RUNTIME_BYTES) throw new Error(`${name} has ${size} bytes, more than a chain accepts`);
    const artifact = {
      name,
      abi: contract.abi,
      bytecode: `0x${contract.evm.bytecode.object}`,
      runtime: describeRuntime(contract.evm.deployedBytecode),
      compiler: `solc ${solc.version()}, paris, optimizer 200 runs`,
    };
    fs.writeFileSync(path.join(out, `${name}.json`), `${JSON.stringify(sortKeys(artifact), null, 1)}\n`);
    process.stdout.write(`${name.padEnd(20)} ${String(size).padStart(6)} bytes\n`);
  }
}

main();
