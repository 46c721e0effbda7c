// Runs the npm package "nacos" against the server at argv[2]: read, subscribe, publish, be pushed to, remove. Prints "ok"
// or what went wrong. argv[3] is the group to use, argv[4] a directory for the client's cache.
const { NacosConfigClient } = require('nacos');

const [, , serverAddr, group, cacheDir] = process.argv;
const dataId = 'rabbitmq-toggle.properties';

function expect(what, got, want) {
  if (got !== want) throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

async function main() {
  const client = new NacosConfigClient({ serverAddr, cacheDir });
  await client.ready();
  expect('missing config', await client.getConfig(dataId, group), null);

  const waiting = [];
  const seen = [];
  client.subscribe({ dataId, group }, content => {
    seen.push(content);
    waiting.splice(0).forEach(wake => wake());
  });
  const pushed = async (what, want) => {
    while (seen[seen.length - 1] !== want) {
      await new Promise((resolve, reject) => {
        waiting.push(resolve);
        setTimeout(() => reject(new Error(`${what}: saw ${JSON.stringify(seen)}, want ${JSON.stringify(want)}`)), 20000).unref();
      });
    }
  };

  expect('publish', await client.publishSingle(dataId, group, 'a=1\nb=ü'), true);
  await pushed('first publish', 'a=1\nb=ü');
  expect('read', await client.getConfig(dataId, group), 'a=1\nb=ü');
  expect('publish', await client.publishSingle(dataId, group, 'a=2;b=%41&c=+'), true);
  await pushed('change', 'a=2;b=%41&c=+');
  expect('remove', await client.remove(dataId, group), true);
  await pushed('removal', null);
  client.close();
}

main().then(
  () => { console.log('ok'); process.exit(0); },
  err => { console.log(err.stack); process.exit(1); },
);
