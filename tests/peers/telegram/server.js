// telegram-test-api on a free port of this machine; its address is the first line printed.
const express = require('express');
const TelegramServer = require('telegram-test-api');

const server = new TelegramServer({ host: '127.0.0.1', storeTimeout: 600 });
server.config.port = 0;
// It numbers messages by itself and knows nothing of media, which have numbers too.
const app = express();
app.post('/next/:id', (request, response) => {
  server.messageId = Number(request.params.id);
  response.json({ ok: true });
});
app.use(server.webServer);
server.webServer = app;
server.start().then(() => {
  console.log(`http://127.0.0.1:${server.server.address().port}`);
});
process.on('SIGTERM', () => process.exit(0));
